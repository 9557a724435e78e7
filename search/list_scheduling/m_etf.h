// SPDX-License-Identifier: Apache-2.0
//
// m-ETF: again and again the (ready group, device with room) pair that can start earliest.
//
//     start(v, d) = max(device d is free, inputs of v have arrived on d)
//     ties: higher rank, then smaller group, then smaller device
//
// Per device two heaps, as in the simulator: pairs whose inputs arrive later than the device is
// free, by arrival, and pairs that could start at once, by rank. A pair moves from one to the other
// at most once, so the search for the earliest pair costs a look at each device.
//
// Optimal: no. Memory: a pair without room is dropped; a group that lost all its pairs goes to the
// roomiest device.
// Time: O(groups * devices * log groups + edges * devices).
// Source: Jeon et al., Baechi, SoCC 2020; REFERENCES.md 5.
// Differs: copies wait for nothing but their producer; ops are groups.
#pragma once

#include "search/coarsening/group_graph.h"

namespace partita::search {

Placement place_m_etf(const GroupGraph& graph);

}  // namespace partita::search
