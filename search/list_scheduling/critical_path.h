// SPDX-License-Identifier: Apache-2.0
//
// Critical path: the longest path by computation from source to sink goes whole to the fastest
// device, so it has no communication; every group off the path goes, in topological order, to the
// device that would finish its load first.
//
//     a ─▶ b ─▶ d      path a b d on the fastest device
//     └──▶ c ──▶┘      c on the least loaded one, whatever it then has to send
//
// Optimal: no. Memory: what does not fit the fastest device goes to the next one with room.
// Time: O(edges + groups * devices).
// Source: Mayer, Mayer, Laich 2017; off-path rule as ParDNN (2021) describes it; REFERENCES.md 5.
// Differs: ops are groups (search/coarsening/op_groups.h); the path is the longest on the fastest
// device.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

Placement place_critical_path(const GroupGraph& graph);

}  // namespace partita::search
