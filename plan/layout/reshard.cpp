// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard.h"

#include <algorithm>

namespace partita::plan {

std::int32_t local_source(const Layout& from, const Piece& piece, const RegionTable& regions) {
    const auto source =
        std::find_if(from.pieces.begin(), from.pieces.end(), [&](const Piece& held) {
            return held.device == piece.device && held.region >= 0 &&
                   held.summand == piece.summand && regions.contains(held.region, piece.region);
        });
    if (source == from.pieces.end()) return -1;
    return static_cast<std::int32_t>(source - from.pieces.begin());
}

bool is_local(const Layout& from, const Layout& to, const RegionTable& regions) {
    if (from.summands != to.summands) return false;
    return std::all_of(to.pieces.begin(), to.pieces.end(), [&](const Piece& piece) {
        return piece.region < 0 || local_source(from, piece, regions) >= 0;
    });
}

}  // namespace partita::plan
