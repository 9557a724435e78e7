// SPDX-License-Identifier: Apache-2.0
#pragma once

// GCC 12 sees reads of 2^63 bytes where a small vector is copied that is never that long (GCC bug 105329).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstringop-overread"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Warray-bounds"
#endif
#include <boost/container/small_vector.hpp>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace partita {

/// A vector of nearly always N items or fewer, which then lie in it.
template <class T, std::size_t N>
using SmallVector = boost::container::small_vector<T, N>;

}  // namespace partita
