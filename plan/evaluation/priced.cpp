// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/priced.h"

#include <utility>

#include "plan/evaluation/max_load.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"

namespace partita::plan {

namespace {

TaskGraph listed_tasks(const Problem& problem, const Strategy& strategy, Scheduler scheduler,
                       Listed listed, std::optional<TaskGraph> known) {
    const bool may_be_folded = listed == Listed::folded_if_many && !has_given_costs(problem) &&
                               may_fold(problem, scheduler);
    if (!may_be_folded) return lower(problem, strategy);
    TaskGraph folded = known ? std::move(*known) : lower_folded(problem, strategy);
    if (!folded.is_folded() || folded.whole_size() > kMostListedTasks) return folded;
    return lower(problem, strategy);
}

Priced evaluated(const Problem& problem, TaskGraph tasks, Timeline timeline) {
    Priced priced{.tasks = std::move(tasks), .timeline = std::move(timeline)};
    priced.evaluation = evaluation_of(problem, priced.tasks, *priced.timeline);
    priced.memory = peak_memory_by_kind(priced.tasks, priced.timeline->commit_order);
    if (problem.objective() == Objective::throughput)
        priced.evaluation.value = busiest_resource(priced.tasks);
    return priced;
}

}  // namespace

Priced price(const Problem& problem, const Strategy& strategy, Scheduler scheduler, Listed listed,
             std::optional<TaskGraph> folded) {
    TaskGraph tasks = listed_tasks(problem, strategy, scheduler, listed, std::move(folded));
    if (has_given_costs(problem)) {
        return {.tasks = std::move(tasks),
                .timeline = {},
                .evaluation = make_evaluator(problem, scheduler)->evaluate(strategy)};
    }
    Timeline timeline = simulate(tasks, scheduler);
    return evaluated(problem, std::move(tasks), std::move(timeline));
}

std::optional<Priced> price_in_order(const Problem& problem, TaskGraph tasks,
                                     const std::vector<TaskId>& order) {
    std::optional<Timeline> timeline = replay(tasks, order);
    if (!timeline) return std::nullopt;
    return evaluated(problem, std::move(tasks), std::move(*timeline));
}

}  // namespace partita::plan
