// SPDX-License-Identifier: Apache-2.0
//
// HEFT: groups by falling upward rank, each on the device where it finishes earliest, in the first
// idle interval that is long enough (insertion).
//
//     rank(v) = mean time of v + max over successors w (mean copy time + rank(w))
//
//     device 0   ▓▓▓▓▓░░░░▓▓▓▓▓      v is ready at r and short enough for the gap: it goes there,
//                     ▲r             not behind the last group
//
// Optimal: no. Memory: a device without room is no candidate; without any, the roomiest is taken.
// Time: O(groups * devices * kMaxGaps + edges * devices).
// Source: Topcuoglu, Hariri, Wu, IEEE TPDS 13(3), 2002, doi:10.1109/71.993206; REFERENCES.md 5.
// Differs: remembers the kMaxGaps latest idle intervals of a device, because groups come roughly by
// rising ready time and old intervals seldom take one; copies wait for nothing but their producer;
// in training a group's forward and backward count as one piece of work.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

/// Idle intervals remembered per device.
inline constexpr int kMaxGaps = 64;

Placement place_heft(const GroupGraph& graph);

}  // namespace partita::search
