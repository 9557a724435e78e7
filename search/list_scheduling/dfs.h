// SPDX-License-Identifier: Apache-2.0
//
// DFS: groups in depth-first order from the sources, each to the device with the smallest
//
//     score(v, d) = traffic(v, d) * (load of d + time of v on d)        ties: by device id
//
// Depth-first order keeps a branch together: when a group is placed, the one before it in its
// branch just was.      a ─▶ b ─▶ c      order a b c d
//                       └──▶ d ──▶┘
//
// Optimal: no. Memory: a device without room is no candidate; without any, the roomiest is taken.
// Time: O(edges + groups * devices).
// Source: Mayer et al. 2017, equation 11; traffic as in REFERENCES.md 5.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

Placement place_dfs(const GroupGraph& graph);

}  // namespace partita::search
