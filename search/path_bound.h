// SPDX-License-Identifier: Apache-2.0
//
// The parts of the lower bound that follow from precedence: numbers 1, 4 and 5 of
// search/lower_bound.h. Heads and tails of every task, each task at its best device:
//
//     head   no plan can start the task earlier      tail   what must follow after it has ended
//
//     forward a ─▶ forward b ─▶ loss ─▶ backward b ─▶ backward a ─▶ update
//     ╰──head──▶▓▓▓▓▓▓▓▓▓▓◀───────────────── tail ───────────────────────╯
#pragma once

#include "graph/ids.h"
#include "graph/units.h"
#include "plan/problem.h"
#include "search/batch_times.h"
#include "search/work_bound.h"

namespace partita::search {

struct PathBounds {
    Time critical_path;   ///< number 1
    Time windows;         ///< number 4
    Time stage;           ///< number 5
    graph::OpId on_path;  ///< the longest op on the critical path; invalid: nothing takes time
    graph::OpId longest_stage;  ///< of number 5
};

/// Of plans with as many micro-batches as `times`.
PathBounds path_bounds(const plan::Problem& problem, const BatchTimes& times,
                       const WorkBound& work);

}  // namespace partita::search
