// SPDX-License-Identifier: Apache-2.0
//
// Batch split: critical path's idea without recomputing exact paths. Repeatedly take the unplaced
// group with the longest computation to a sink, follow the unplaced successor with the longest one,
// and give that whole path to the device that would finish it first.
//
//     a ─▶ b ─▶ d ─▶ e      first a b d e, then c f (what is left of the next path), ...
//     └──▶ c ──▶┘ f ▲
//          └────────┘
//
// Optimal: no. Memory: a path that fits no device is placed group by group.
// Time: O(groups log groups + edges + paths * devices).
// Source: Mayer et al. 2017; the definition of REFERENCES.md 5.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

Placement place_batch_split(const GroupGraph& graph);

}  // namespace partita::search
