// SPDX-License-Identifier: Apache-2.0
//
// The shards of a layout: what is distinct in it. Pieces with equal region and summand are the
// replicas of one shard.
//
//     pieces    0: rows 0-3    1: rows 4-7    2: rows 0-3    3: nothing
//     shards    0: rows 0-3, replicas 0 and 2                1: rows 4-7, replica 1
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.h"
#include "plan/layout/layout.h"

namespace partita::plan {

struct Shard {
    std::int32_t region = -1;
    std::int32_t summand = 0;
};

/// Shards in the order of their first pieces. Keeps its memory from one layout to the next.
class Shards {
public:
    /// O(n log n) for n pieces. Pieces that hold no element are of no shard.
    void find(const Layout& layout, const RegionTable& regions);

    [[nodiscard]] std::size_t size() const { return shards_.size(); }
    [[nodiscard]] const Shard& operator[](std::size_t shard) const { return shards_[shard]; }
    /// The pieces of a shard, rising.
    [[nodiscard]] std::span<const std::int32_t> replicas(std::size_t shard) const {
        return replicas_[shard];
    }
    /// Of a piece; -1: it holds no element.
    [[nodiscard]] std::int32_t shard_of(std::size_t piece) const { return shard_of_[piece]; }
    /// The position of a piece among those of equal region and summand.
    [[nodiscard]] std::int32_t rank_of(std::size_t piece) const { return rank_of_[piece]; }

    /// Do all addends of an element lie in the same region, with as many replicas each? Windowed
    /// gradients are no such layouts: their regions overlap without being equal. O(s log s) for s
    /// shards.
    [[nodiscard]] bool have_equal_addends(std::int32_t summands);

private:
    struct Holder {
        std::int32_t region = -1;
        std::int32_t summand = 0;
        std::int32_t piece = -1;
        friend auto operator<=>(const Holder&, const Holder&) = default;
    };
    /// Equal holders, as a range of holders_.
    struct Run {
        std::int32_t first_piece = -1;
        std::size_t begin = 0;
        std::size_t end = 0;
    };

    std::vector<Shard> shards_;
    Csr<std::int32_t> replicas_;
    std::vector<std::int32_t> shard_of_;
    std::vector<std::int32_t> rank_of_;
    std::vector<Holder> holders_;  ///< the pieces that have a region, sorted
    std::vector<Run> runs_;
    std::vector<std::int32_t> by_region_;  ///< shards, sorted
};

}  // namespace partita::plan
