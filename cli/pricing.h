// SPDX-License-Identifier: Apache-2.0
//
// What a placed strategy means on a machine: its tasks, their timeline, and the objective.
#pragma once

#include <optional>
#include <vector>

#include "plan/evaluator.h"
#include "plan/problem.h"
#include "plan/simulate.h"
#include "plan/strategy.h"
#include "plan/task_graph.h"

namespace partita::cli {

struct Priced {
    plan::TaskGraph tasks;
    std::optional<plan::Timeline> timeline;  ///< none for the throughput of given costs
    plan::Evaluation evaluation;
};

/// Runs the tasks in `order`; throws InputError when it is no order of these tasks.
Priced price_in_order(const plan::Problem& problem, const plan::Strategy& strategy,
                      const std::vector<plan::TaskId>& order);
/// Orders the tasks anew.
Priced price_anew(const plan::Problem& problem, const plan::Strategy& strategy,
                  plan::Scheduler scheduler);

}  // namespace partita::cli
