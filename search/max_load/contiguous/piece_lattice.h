// SPDX-License-Identifier: Apache-2.0
//
// The ideals of a piece graph: sets of vertices that hold all predecessors of what they hold.
// Contiguous pieces are the differences of a rising sequence of ideals. What is kept is the
// covering relation, which vertex can be taken away and which ideal that leaves, and not the sets:
//
//     a ─▶ b          {}  ◀─a─  {a}  ◀─b─  {a b}  ◀─c─  {a b c}
//     a ─▶ c                         ◀─c─  {a c}  ◀─b─┘
//
// Ideals are numbered by size, so that those of one size (a level) follow one another, the empty
// one first. Memory: 8 bytes for each covering pair; sets of two levels while it is made.
// Time: O(covering pairs * vertices / 64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/max_load/model/piece_graph.h"

namespace partita::search {

class PieceLattice {
public:
    /// Taking `vertex` away leaves `ideal`.
    struct Step {
        std::int32_t vertex = 0;
        std::uint32_t ideal = 0;
    };

    /// All ideals; nullopt when there are more than `most`.
    static std::optional<PieceLattice> all(const PieceGraph& graph, std::size_t most);
    /// The prefixes of the order of the vertices alone.
    static PieceLattice prefixes(std::size_t vertices);

    [[nodiscard]] std::size_t size() const { return offsets_.size() - 1; }
    [[nodiscard]] std::size_t levels() const { return level_begin_.size() - 1; }
    /// The first ideal of so many vertices; level = levels(): one behind the last.
    [[nodiscard]] std::size_t level_begin(std::size_t level) const { return level_begin_[level]; }
    /// By falling vertex.
    [[nodiscard]] std::span<const Step> steps(std::size_t ideal) const {
        return {steps_.data() + offsets_[ideal], steps_.data() + offsets_[ideal + 1]};
    }
    [[nodiscard]] std::size_t step_count() const { return steps_.size(); }

private:
    friend class LatticeBuilder;

    std::vector<std::size_t> level_begin_{0, 1};
    std::vector<std::size_t> offsets_{0, 0};  ///< of the empty ideal
    std::vector<Step> steps_;
};

}  // namespace partita::search
