// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/reshard_planner.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace partita::plan {

namespace {

/// `from` with its addends combined in place: every piece holds what it held, but whole.
Layout combined_in_place(const Layout& from) {
    Layout layout{.pieces = from.pieces};
    for (Piece& piece : layout.pieces) piece.summand = 0;
    return layout;
}

/// Is `to` combined_in_place(from)?
bool is_combined_in_place(const Layout& from, const Layout& to) {
    return !to.is_partial() && to.combine == graph::Combine::none &&
           std::ranges::equal(from.pieces, to.pieces, [](const Piece& a, const Piece& b) {
               return a.device == b.device && a.region == b.region && b.summand == 0;
           });
}

}  // namespace

Reshard ReshardPlanner::plan(const Layout& from, const Layout& to, RegionTable& regions,
                             const cost::Machine& machine) {
    assert(!to.is_partial() || to.summands == from.summands);
    const LayoutPair pair{from, to};
    old_.find(from, regions);
    const bool can_combine =
        from.is_partial() && !to.is_partial() && old_.have_equal_addends(from.summands);
    // In place, replicas are taken by rank alone: groups joined by a replica that is near to
    // several would have no name.
    const bool same_ranks = can_combine && is_combined_in_place(from, to);
    needs_.find(pair, old_, same_ranks, regions, machine);
    if (auto layout = scatter_gather_.through(pair, needs_, regions, machine)) {
        Reshard reshard;
        reshard.through = std::move(layout);
        return reshard;
    }
    groups_.find(pair, needs_);
    builder_.begin(pair, needs_, regions);
    for (const std::int32_t target : groups_.local()) builder_.add_local(target);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const std::span<const std::int32_t> group = groups_[i];
        if (const auto collective = collective_.choose(pair, group, needs_, regions)) {
            builder_.add_collective(*collective);
        } else if (can_combine) {
            Reshard reshard;
            reshard.through = combined_in_place(from);
            return reshard;
        } else {
            for (const std::int32_t target : group) builder_.add_copies(target);
        }
    }
    return builder_.given();
}

}  // namespace partita::plan
