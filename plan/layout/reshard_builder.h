// SPDX-License-Identifier: Apache-2.0
//
// Writes a reshard, transfer by transfer, into lists that it keeps; given() copies them once their
// sizes are known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/layout/collective_choice.h"
#include "plan/layout/layout.h"
#include "plan/layout/overlap_index.h"
#include "plan/layout/reshard.h"
#include "plan/layout/reshard_needs.h"

namespace partita::plan {

class ReshardBuilder {
public:
    /// All three stay as they are until given().
    void begin(const LayoutPair& pair, const ReshardNeeds& needs, const RegionTable& regions);

    /// The new piece is a part of an old one on its device.
    void add_local(std::int32_t target);
    /// One transfer. O(pieces of the group + what ReshardNeeds lists of it).
    void add_collective(const GroupCollective& collective);
    /// A copy of each need of a new piece that lies elsewhere. O(needs), O(needs * log needs) where
    /// addends with gaps meet, and their pairs that overlap along the dim of OverlapIndex.
    void add_copies(std::int32_t target);

    [[nodiscard]] Reshard given() const;

private:
    /// Of lists_.items.
    struct Run {
        std::size_t begin = 0;
        std::size_t end = 0;
    };
    /// Of ReshardNeeds.
    struct ListOfSources {
        std::optional<std::int32_t> region;  ///< of all of them, once it is known; -1: of none
        bool all_pack = false;
    };
    /// Ends of a transfer's runs in lists_.
    struct Ends {
        std::size_t sources = 0;
        std::size_t results = 0;
        std::size_t devices = 0;
    };

    void add_ranks(const GroupCollective& collective);
    void note_packing(const GroupCollective& collective, std::span<char> pack,
                      std::span<Delivery> results);
    void note_given(std::size_t row, std::span<char> pack);
    [[nodiscard]] std::int32_t region_of_all(const NeedList& needs) const;
    void add_copy(std::int32_t target, const Need& need);
    void close_transfer();
    [[nodiscard]] bool overlap(const NeedList& needs);

    const LayoutPair* pair_ = nullptr;
    const ReshardNeeds* needs_ = nullptr;
    const RegionTable* regions_ = nullptr;
    std::vector<Transfer> transfers_;
    std::vector<Ends> ends_;  ///< per transfer
    std::vector<Supply> supplies_;
    std::vector<Run> items_of_;  ///< per new piece
    Reshard::Lists lists_;
    std::vector<std::size_t> index_of_;         ///< per old piece among the sources of a transfer
    std::vector<std::optional<bool>> unpacks_;  ///< per row of needs, once it is known
    std::vector<ListOfSources> lists_of_sources_;
    OverlapIndex index_;                         ///< of the needs of one new piece
    std::vector<std::int32_t> regions_of_need_;  ///< that are in index_
};

}  // namespace partita::plan
