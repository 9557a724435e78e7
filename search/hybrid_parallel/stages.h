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

/// The devices of a stage, the last of these minor: groups that share the batch, neighbours that share
/// it or, where there are some, the experts, those of each that share the sequence, those of these
/// that share weights.
struct StageBlock {
    plan::DeviceSet devices;  ///< groups * experts * context * group_size of them
    int groups = 1;
    int experts = 1;
    int context = 1;
    int group_size = 1;
    int micro_batches = 1;
};

/// How an op is split inside a group (group_split.h).
struct StageAxes {
    plan::Axis own;      ///< over group_size
    plan::Axis context;  ///< over context
    plan::Axis experts;  ///< over experts
    /// Where both split one factor: first over group_size, each of these parts over context.
    bool own_first = false;
};

/// How the op is split over the block: the batch over its groups, and by these axes inside each.
/// What cannot be split is repeated, and what cannot be repeated either is whole on one device.
plan::OpConfig stage_config(const plan::Problem& problem, graph::OpId op, const StageBlock& block,
                            const StageAxes& axes);

/// May the op be split by these axes, and nothing of it be repeated instead?
bool may_split(const plan::Problem& problem, graph::OpId op, const StageBlock& block,
               const StageAxes& axes);

/// The slot of every op, given those of groups (-1: the last one): that of its group, but never
/// before those of what it reads. Inputs and parameters follow their first reader.
std::vector<int> slots_of_ops(const GroupGraph& graph, const std::vector<int>& slot_of_group,
                              int slots);
/// The same, given those that ops should have.
std::vector<int> slots_in_order(const graph::OpGraph& graph, std::vector<int> slot);

}  // namespace partita::search
