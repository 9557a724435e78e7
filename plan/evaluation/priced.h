// SPDX-License-Identifier: Apache-2.0
//
// What a strategy means on a machine: its tasks, their timeline, and the objective; what a plan
// file, a trace and a report are made of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/memory_kind.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// Which tasks are listed: of all devices, or, if those are more than kMostListedTasks and devices
/// do the same, of one device of each class (plan/folding/folding.h).
enum class Listed : std::uint8_t { all, folded_if_many };

/// Beyond, a plan file is too large to look at, and what reads it waits for seconds.
inline constexpr std::int64_t kMostListedTasks = 100'000;

struct Priced {
    TaskGraph tasks;
    std::optional<Timeline> timeline;  ///< not of given costs, whose objectives are formulas
    Evaluation evaluation;             ///< of all devices
    std::vector<MemoryByKind> memory;  ///< of all devices, at their peaks; with a timeline
};

/// Orders the tasks by the rule. `strategy` must be legal, schedule included. `folded`: its tasks as
/// lower_folded() makes them, where somebody has them already (Evaluator::take_folded).
Priced price(const Problem& problem, const Strategy& strategy, Scheduler scheduler, Listed listed,
             std::optional<TaskGraph> folded = std::nullopt);

/// In a given order; nullopt when it is none of the tasks. Not for given costs.
std::optional<Priced> price_in_order(const Problem& problem, TaskGraph tasks,
                                     const std::vector<TaskId>& order);

}  // namespace partita::plan
