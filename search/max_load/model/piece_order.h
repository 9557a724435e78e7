// SPDX-License-Identifier: Apache-2.0
//
// Orders of the vertices of a piece graph. None depends on how its ops are numbered, except between
// vertices that look alike from everywhere.
//
//     canonical      by depth, then by costs of the vertex and of what surrounds it, to a fixed distance
//     linear orders  which sets are prefixes: layer by layer, branch by branch (from the front and from
//                    the back), most urgent first
//
// Time: O(rounds * (edges + pins)), no more rounds than distinguish more vertices.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace partita::search {

struct PieceGraph;

struct Numbering {
    std::vector<std::int32_t> of;
    std::size_t size = 0;
};

/// Vertices on a common cycle share a number.
Numbering strong_components(std::size_t size,
                            const std::vector<std::pair<std::int32_t, std::int32_t>>& edges);

/// The place of each vertex, topological. The graph must be acyclic.
std::vector<std::int32_t> canonical_order(const PieceGraph& graph);

/// For a graph in canonical order: the places of its vertices in some topological orders, the first
/// of which is the canonical one.
std::vector<std::vector<std::int32_t>> linear_orders(const PieceGraph& graph);

}  // namespace partita::search
