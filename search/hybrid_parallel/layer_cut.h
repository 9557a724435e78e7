// SPDX-License-Identifier: Apache-2.0
//
// A model cut by its layers: blocks (Op::block, in order of their first group; a group without one
// continues the block before it) go to slots in order, one contiguous stretch each, so that the
// busiest slot is as little loaded as such a cut allows. A model without blocks, or with fewer than
// slots, is cut between any two groups.
//
//     blocks    embed  layer0  layer1  layer2  layer3  head
//     slots     ╰──── 0 ────╯  ╰───── 1 ────╯  ╰──── 2 ───╯
//
// For a limit T every slot takes as many blocks as it can finish within T and hold; the smallest T
// that places all comes from bisection. Slow slots take few blocks, or none.
//
// Optimal: within 1/1000 of the best such cut (communication aside) when memory does not bind.
// Time: O(groups * log(work)).
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "search/coarsening/group_graph.h"

namespace partita::search {

/// Where a stretch of layers can go.
struct Slot {
    int device = 0;  ///< whose speed it has
    Bytes memory;
    /// One of so many parts of what is saved for backward lies there at a time.
    std::int64_t saved_parts = 1;
};

/// The slot of every group; -1 where memory ends before the model does.
std::vector<int> cut_layers(const GroupGraph& graph, const std::vector<Slot>& slots);

/// The slot of each layer (graph::layers_of), where it is said how many of them each slot has: all
/// that there are together.
std::map<std::string_view, int> slots_of_layers(const graph::OpGraph& graph,
                                                std::span<const int> layers);

/// The slot of every op, where that is said. What lies before the layers is in the first slot, what
/// lies behind them in the last one.
std::vector<int> slots_by_layers(const graph::OpGraph& graph, std::span<const int> layers);

}  // namespace partita::search
