// SPDX-License-Identifier: Apache-2.0
//
// Finds regions of a list that may overlap a given one. It looks along one dim, along which both are
// short, so that few others are found with those that overlap:
//
//     regions     0: rows 0-3    1: rows 8-11    2: rows 4-7    3: rows 0-3
//     near rows 2-5                                             0, 2, 3
//
// Positions with holes count with the range from their first to their last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/operators/part.h"
#include "plan/layout/layout.h"

namespace partita::plan {

/// Keeps its memory from one list to the next.
class OverlapIndex {
public:
    /// Of `regions`; near() will be asked about `others`. All are of one tensor, none is empty.
    /// O(n log n + (n + m) * dims) for n regions and m others.
    void build(std::span<const std::int32_t> regions, std::span<const std::int32_t> others,
               const RegionTable& table);

    /// The indices of all regions that overlap `region`, and of some that do not; rising. Valid
    /// until the next call. O(log n + k log k) for k regions that overlap along the dim; ranges of
    /// different lengths may cost more.
    std::span<const std::int32_t> near(std::int32_t region, const RegionTable& table);

private:
    struct Entry {
        graph::Range range;  ///< along dim_
        std::int32_t index = -1;
    };
    [[nodiscard]] graph::Range range_of(std::int32_t region, const RegionTable& table) const;
    void choose_dim(std::span<const std::int32_t> regions, std::span<const std::int32_t> others,
                    const RegionTable& table);

    std::size_t dim_ = 0;
    std::vector<Entry> entries_;             ///< sorted by where they begin, then by index
    std::vector<std::int64_t> latest_ends_;  ///< per entry: of it and all before
    std::vector<std::int32_t> near_;
};

}  // namespace partita::plan
