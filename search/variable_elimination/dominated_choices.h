// SPDX-License-Identifier: Apache-2.0
//
// Choices that some other choice of the same variable replaces at no loss, whatever its neighbours
// choose:
//
//     k is dominated by j     node[j] - node[k] + sum over edges  max over c of (edge[j][c] - edge[k][c])  <= 0
//
// Leaving them out keeps the least value, and makes the tables of variable elimination smaller by
// powers. Most configs of an op are of this kind: as quick as another one, and further from what
// surrounds it. The maxima are found once per table and side, so edges that share a table share
// them.
//
// Exact. Time: O(tables * choices^3 + edges * choices^2). Of choices that are equal the first
// stays.
#pragma once

#include <vector>

#include "search/variable_elimination/cost_graph.h"

namespace partita::search {

/// Per variable the choices that stay, rising; one or more.
std::vector<std::vector<int>> undominated_choices(const CostGraph& graph);

}  // namespace partita::search
