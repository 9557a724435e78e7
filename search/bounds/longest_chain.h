// SPDX-License-Identifier: Apache-2.0
//
// The longest chain of tasks of one micro-batch of which each reads evenly (uniform_reads.h) what
// the one before gives, every task at its shortest: forwards, in training the loss that reads the
// last result, and backwards.
//
//     fwd a ─▶ fwd b ─▶ fwd c ─▶ loss ─▶ bwd c ─▶ bwd b ─▶ bwd a
#pragma once

#include <vector>

#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "search/bounds/work_bound.h"
#include "search/part_costs/part_costs.h"

namespace partita::search {

/// A forward, or a backward or loss, of one micro-batch.
struct ChainTask {
    graph::OpId op;
    bool backward = false;
};

/// Empty when nothing takes time; of equally long ones the first by number. Time: O(ops + edges).
std::vector<ChainTask> longest_chain(const plan::Problem& problem, const PartCosts& parts,
                                     const WorkBound& work);

}  // namespace partita::search
