// SPDX-License-Identifier: Apache-2.0
//
// Pieces of a layout that are asked about one after the other, in nearly the order in which they
// lie. Private to plan/tensors.
#pragma once

#include <cstddef>
#include <span>

#include "plan/layout/layout.h"

namespace partita::plan {

/// Is one of the pieces such a one? Looks from `next` on, around, and leaves it behind the one that
/// was found. O(1) where that is the next one, else O(pieces).
template <class IsIt>
bool any_from(std::span<const Piece> pieces, std::size_t& next, IsIt is_it) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        if (next >= pieces.size()) next = 0;
        if (is_it(pieces[next++])) return true;
    }
    return false;
}

}  // namespace partita::plan
