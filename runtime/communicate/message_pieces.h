// SPDX-License-Identifier: Apache-2.0
//
// A message that is larger than what a library sends at once, as pieces that go one after the
// other:
//
//     size 25, largest 10     [0, 10) [10, 20) [20, 25)
//
// A message without bytes is one piece without bytes: the receiver waits for it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace partita::runtime {

/// Calls `visit(begin, bytes)` for each, in order. `size` >= 0, `largest` >= 1.
template <class Visit>
void for_each_piece(std::int64_t size, std::int64_t largest, const Visit& visit) {
    std::int64_t begin = 0;
    do {
        const std::int64_t bytes = std::min(size - begin, largest);
        visit(begin, bytes);
        begin += bytes;
    } while (begin < size);
}

}  // namespace partita::runtime
