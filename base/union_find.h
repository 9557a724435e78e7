// SPDX-License-Identifier: Apache-2.0
//
// Disjoint sets of 0, 1, ..., n - 1. The representative of a set is its smallest member, so that
// nothing depends on the order in which sets were united.
//
// Time: O(log n) amortised for each call (path halving, no ranks). Source: Tarjan, van Leeuwen,
// JACM 31(2), 1984.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace partita {

class UnionFind {
public:
    explicit UnionFind(std::size_t size = 0) { reset(size); }

    /// Each alone. Keeps its memory.
    void reset(std::size_t size) {
        parent_.resize(size);
        std::iota(parent_.begin(), parent_.end(), 0U);
    }

    /// The smallest member of the set of `member`.
    std::uint32_t root(std::size_t member) {
        auto at = static_cast<std::uint32_t>(member);
        while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
        return at;
    }

    /// One set of the two.
    void unite(std::size_t a, std::size_t b) {
        const auto [low, high] = std::minmax({root(a), root(b)});
        parent_[high] = low;
    }

private:
    std::vector<std::uint32_t> parent_;
};

}  // namespace partita
