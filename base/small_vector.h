// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/container/small_vector.hpp>

namespace partita {

/// A vector of nearly always N items or fewer, which then lie in it.
template <class T, std::size_t N>
using SmallVector = boost::container::small_vector<T, N>;

}  // namespace partita
