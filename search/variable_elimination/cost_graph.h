// SPDX-License-Identifier: Apache-2.0
//
// Costs that are sums of terms of one and of two variables, each of which has a few choices:
//
//     value = sum of node[v][choice of v]  +  sum over edges (u, v) of edge[choice of u][choice of v]
//
// The least value is found by variable_elimination.h.
#pragma once

#include <cstdint>
#include <vector>

namespace partita::search {

/// Costs are >= 0 and sum to less than 2^62.
struct CostGraph {
    struct Edge {
        int a = 0;  ///< != b
        int b = 0;
        /// [choice of a][choice of b]; edges may share a table.
        const std::vector<std::int64_t>* costs = nullptr;
    };
    std::vector<std::vector<std::int64_t>> nodes;  ///< per variable and choice; one or more
    std::vector<Edge> edges;
};

/// The sum above.
std::int64_t value_of(const CostGraph& graph, const std::vector<int>& choices);

/// Improves one variable after the other, the others as they are, until no change is better.
void descend(const CostGraph& graph, std::vector<int>& choices);

}  // namespace partita::search
