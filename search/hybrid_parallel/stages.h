// SPDX-License-Identifier: Apache-2.0
//
// Pieces of strategies whose model is cut into stages: what grids of equal devices (grids.h) and
// stages of unequal ones (kind_stages.h) have in common.
#pragma once

#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/group_graph.h"

namespace partita::search {

/// The devices of a stage: groups that share the batch, the groups major and the devices of a group
/// minor.
struct StageBlock {
    plan::DeviceSet devices;  ///< groups * group_size of them
    int groups = 1;
    int group_size = 1;
    int micro_batches = 1;
};

/// How the op is split over the block: the batch over its groups, and by its own axis
/// (group_split.h) inside each. What cannot be split is repeated, and what cannot be repeated
/// either is whole on one device.
plan::OpConfig stage_config(const plan::Problem& problem, graph::OpId op, const StageBlock& block,
                            const plan::Axis& own);

/// The slot of every op, given those of groups (-1: the last one): that of its group, but never
/// before those of what it reads. Inputs and parameters follow their first reader.
std::vector<int> slots_of_ops(const GroupGraph& graph, const std::vector<int>& slot_of_group,
                              int slots);

}  // namespace partita::search
