// SPDX-License-Identifier: Apache-2.0
//
// Expert: what a person does who cuts a model by its layers. Blocks (Op::block, in order of their
// first group; a group without one continues the block before it) go to the devices in order of
// their ids, one contiguous stretch each, so that the busiest device is as little loaded as such a
// cut allows. A model without blocks, or with fewer than devices, is cut between any two groups.
//
//     blocks    embed  layer0  layer1  layer2  layer3  head
//     devices   ╰─── gpu0 ──╯  ╰─── gpu1 ──╯  ╰── gpu2 ──╯
//
// For a limit T every device takes as many blocks as it can finish within T and hold; the smallest T
// that places all comes from bisection. Slow devices take few blocks, or none.
//
// Optimal: within 1/1000 of the best such cut (communication aside) when all ops are allowed
// everywhere and memory does not bind; then not. Memory: part of the cut; what fits nowhere in order
// goes to the least loaded device with room.
// Time: O(groups * log(work)).
// Source: the manual placements that REFERENCES.md 7 and 8 compare with.
#pragma once

#include "search/group_graph.h"

namespace partita::search {

Placement place_expert(const GroupGraph& graph);

}  // namespace partita::search
