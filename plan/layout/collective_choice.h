// SPDX-License-Identifier: Apache-2.0
//
// Whether a group of a reshard moves by a collective, and by which: looks at what its pieces have in
// common and at what they exchange, and asks the table of reshard_collectives.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/layout/reshard_collectives.h"
#include "plan/layout/reshard_needs.h"

namespace partita::plan {

/// What a collective does for a group. Where an old piece of the group shares elements with a new
/// one, the new piece needs them from it: no replica of the old piece takes part.
struct GroupCollective {
    NamedGroup named;
    std::span<const std::int32_t> sources;  ///< old pieces, rising
    std::span<const std::int32_t> targets;  ///< new pieces, rising
    std::span<const int> source_devices;
    std::span<const int> target_devices;
};

/// Keeps its memory from one group to the next.
class CollectiveChoice {
public:
    /// nullopt: no collective does exactly that. Valid until the next call. O(pieces * log pieces +
    /// what ReshardNeeds lists) of the group.
    [[nodiscard]] std::optional<GroupCollective> choose(const LayoutPair& pair,
                                                        std::span<const std::int32_t> group,
                                                        const ReshardNeeds& needs,
                                                        const RegionTable& regions);

private:
    Exchange find_exchange(const LayoutPair& pair, std::span<const std::int32_t> group,
                           const ReshardNeeds& needs, const RegionTable& regions);
    void give(std::int32_t source, std::int64_t elements);

    std::vector<std::int32_t> sources_;
    std::vector<Piece> source_pieces_;
    std::vector<Piece> target_pieces_;
    std::vector<int> source_devices_;
    std::vector<int> target_devices_;
    // All zero outside of find_exchange().
    std::vector<std::int64_t> given_;          ///< elements, per old piece
    std::vector<std::int64_t> given_by_each_;  ///< elements, per list of sources
    std::vector<std::int64_t> pieces_of_row_;  ///< of the group, per row of needs
    std::vector<std::size_t> rows_;            ///< of the group
    std::vector<std::size_t> lists_of_sources_;
};

}  // namespace partita::plan
