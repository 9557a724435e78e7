// SPDX-License-Identifier: Apache-2.0
//
// Variable elimination: the cheapest choice for every variable of a graph of costs (cost_graph.h).
//
// A variable goes away with all terms it is in; what stays is a table of its neighbours' choices:
//
//     table[a][b] = min over k of   node[k] + to_a[k][a] + to_b[k][b]      one in, one out: "node
//                                                                          elimination"
//     u ══ v        terms of the same variables are added                  "edge elimination"
//     leaf ── v     becomes a term of v alone
//     more          a table over all neighbours: what a graph of larger treewidth needs
//
// First choices go that are dominated (dominated_choices.h). Next goes the variable whose table is
// smallest; ties by number. Going back, each takes its best choice under those of its neighbours;
// ties by the lowest.
//
// Optimal: yes, while no table exceeds the limits. Where all would, the variable with the largest
// neighbourhood is fixed to the choice that could be best by its own terms alone, and at the end
// choices are improved one by one until none can be; then `exact` is false.
// Time: O(variables * log + sum of table sizes * choices); exponential in the treewidth alone.
// Source: Bertele, Brioschi, Nonserial Dynamic Programming, 1972; Dechter, Bucket elimination,
// Artificial Intelligence 113, 1999, doi:10.1016/S0004-3702(99)00059-4; node and edge elimination
// as in Jia et al., ICML 2018, section 5.
#pragma once

#include <cstdint>
#include <vector>

#include "search/variable_elimination/cost_graph.h"

namespace partita::search {

struct EliminationLimits {
    std::int64_t most_entries = std::int64_t{1} << 16U;  ///< of one table
    std::int64_t most_work = 2'000'000'000;              ///< additions, about, in all
};

struct Elimination {
    std::vector<int> choices;  ///< per variable
    std::int64_t value = 0;
    bool exact = true;
    int width = 0;  ///< the most neighbours that an eliminated variable had
    int fixed = 0;  ///< variables that were not eliminated
};

Elimination eliminate(const CostGraph& graph, const EliminationLimits& limits = {});

}  // namespace partita::search
