// SPDX-License-Identifier: Apache-2.0
//
// Which collective takes a group of old pieces to a group of new ones: the table of reshard.h.
// Asked by collective_choice.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cost/collectives/collective.h"
#include "plan/layout/layout.h"

namespace partita::plan {

/// What the pieces of one side of a group have in common.
struct SideShape {
    std::span<const int> devices;  ///< in order of pieces
    bool same_region = true;
    bool same_summand = true;
    bool distinct_summands = true;
    std::int64_t largest = 0;
    std::int64_t sum = 0;
};

/// `pieces`: at least one, each with a region. `devices`: theirs.
SideShape shape_of(std::span<const Piece> pieces, std::span<const int> devices,
                   const RegionTable& regions);

/// What the new pieces of a group need of the old ones.
struct Exchange {
    std::int64_t pairs = 0;       ///< of an old and a new piece
    std::int64_t elements = 0;    ///< sum over the pairs
    std::int64_t most_given = 0;  ///< by one old piece to all new ones
};

struct NamedGroup {
    cost::Collective collective;
    std::int64_t elements = 0;  ///< as cost::CollectiveCall counts bytes, uneven parts padded
};

/// False: groups of so many old and new pieces have no name.
constexpr bool may_have_name(std::size_t sources, std::size_t targets) {
    return sources == targets ? sources > 1 : sources == 1 || targets == 1;
}

/// nullopt: no collective does exactly that. What nobody holds (gradients with gaps) has no place
/// in one.
std::optional<NamedGroup> name_of_group(const SideShape& from, const SideShape& to,
                                        const Exchange& exchange);

/// Does a rank give every other one something else?
bool gives_a_part(cost::Collective collective);
/// Does a rank put together what several give it, instead of adding it up?
bool gets_from_many(cost::Collective collective);

bool has_root_at_source(cost::Collective collective);
bool has_root_at_target(cost::Collective collective);

}  // namespace partita::plan
