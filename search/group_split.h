// SPDX-License-Identifier: Apache-2.0
//
// How a group of equal devices shares each op: split along one factor, or repeated. Chosen op by op
// in order of the data, each time by the least time of
//
//     its part's computation
//   + what brings its operands from the forms in which they are to the one it needs
//   + the same for gradients on their way back, and what adds up those of its parameters
//
// so that known patterns come out without being named: two matrix products by columns and by rows
// with one all-reduce behind them (Megatron-LM), attention by heads, the batch for convolutions and
// output features for wide fully connected layers ("one weird trick").
//
//     form        replicated, shards of one dim, or partial sums; a tensor may have several at once
//
// Optimal: no, it does not look ahead. Time: O(ops * factors).
// Source: Shoeybi et al., Megatron-LM, 2019, section 3; Krizhevsky, One weird trick for parallelizing
// convolutional neural networks, 2014; Korthikanti et al., Reducing Activation Recomputation, 2022
// (sequence parallelism: shards of the rows between the products, where that is cheaper).
#pragma once

#include <vector>

#include "plan/problem.h"
#include "plan/strategy.h"

namespace partita::search {

struct GroupSplitOptions {
    plan::DeviceSet group;  ///< one of the groups; two devices or more
    int batch_parts = 1;    ///< groups that share the batch
    plan::DeviceSet
        replicas;  ///< of one device over those groups, for gradients; batch_parts of them
    bool whole_batch = false;  ///< may the batch be split inside a group? Only with one part of it.
};

struct GroupSplit {
    /// Per op its axis: a factor, or "*". Sources have that of their first reader's need.
    std::vector<plan::FactorDegree> axes;
    /// Per op the estimated time of an iteration.
    std::vector<Time> times;
};

GroupSplit split_over_group(const plan::Problem& problem, const GroupSplitOptions& options);

}  // namespace partita::search
