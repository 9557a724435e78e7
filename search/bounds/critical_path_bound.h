// SPDX-License-Identifier: Apache-2.0
//
// The parts of the lower bound that follow from precedence: numbers 1, 4 and 5 of
// search/bounds/lower_bound.h. Heads and tails of every task, each task at its best device:
//
//     head   no plan can start the task earlier      tail   what must follow after it has ended
//
//     forward a ─▶ forward b ─▶ loss ─▶ backward b ─▶ backward a ─▶ update
//     ╰──head──▶▓▓▓▓▓▓▓▓▓▓◀───────────────── tail ───────────────────────╯
#pragma once

#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "search/bounds/work_bound.h"
#include "search/part_costs/micro_batch_costs.h"
#include "search/part_costs/part_costs.h"

namespace partita::search {

/// One task at its best device, in its best number of parts.
struct BestTask {
    Time head;
    Time length;
    Time tail;
    Int128 price = 0;  ///< smallest weighted time
};

/// Forward, backward (a loss, for outputs) and update of every op. Those that do not exist have
/// length and price 0 and pass heads and tails on, as if they were there and took no time.
struct BestTasks {
    std::vector<BestTask> forward;
    std::vector<BestTask> backward;
    std::vector<BestTask> update;
};

struct CriticalPathBounds {
    BestTasks tasks;
    Time critical_path;   ///< number 1
    Time windows;         ///< number 4
    Time stage;           ///< number 5
    graph::OpId on_path;  ///< the longest op on the critical path; invalid: nothing takes time
    graph::OpId longest_stage;  ///< of number 5
};

/// Of plans with as many micro-batches as `times`.
CriticalPathBounds critical_path_bounds(const plan::Problem& problem, const MicroBatchCosts& times,
                                        const PartCosts& parts, const WorkBound& work);

}  // namespace partita::search
