// SPDX-License-Identifier: Apache-2.0
//
// Counts calls of operator new in the whole program, of libraries too.
#pragma once

#include <cstdint>

namespace partita::bench {

std::int64_t allocation_count();

}  // namespace partita::bench
