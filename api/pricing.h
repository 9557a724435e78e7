// SPDX-License-Identifier: Apache-2.0
//
// What a placed strategy means on a machine: its tasks, their timeline, and the objective.
#pragma once

#include <optional>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/memory_kind.h"
#include "plan/tasks/task_graph.h"

namespace partita::api {

struct Priced {
    plan::TaskGraph tasks;
    std::optional<plan::Timeline> timeline;  ///< if has_timeline()
    plan::Evaluation evaluation;
    std::vector<plan::MemoryByKind> memory = {};  ///< per device, at its peak; with a timeline
};

/// CPU devices share the host's memory, whatever a plan grants each: is there enough?
bool fits_host(const plan::Problem& problem, const plan::Evaluation& evaluation);

/// False for given costs, whose objectives are formulas over ops.
bool has_timeline(const plan::Problem& problem);

/// Runs the plan's tasks in its order, by the prices of the problem, whatever they are. Throws
/// InputError when it is no order of these tasks, as may happen on another machine. Plans of given
/// costs name a scheduler instead.
Priced price_as_planned(const plan::Problem& problem, const plan::Strategy& strategy,
                        const plan::Plan& plan);
/// Orders the tasks anew; which they are, prices decide anew too.
Priced price_anew(const plan::Problem& problem, const plan::Strategy& strategy,
                  plan::Scheduler scheduler);

}  // namespace partita::api
