// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "plan/evaluation/max_load.h"
#include "plan/evaluation/subgraph_latency.h"
#include "plan/legality/stages.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"

namespace partita::plan {

namespace {

struct Lowered {
    TaskGraph graph;
    bool keeps_schedule = true;
};

/// Searchers propose what is no pipeline, too: it is lowered without its schedule.
Lowered lower_what_may_be(const Problem& problem, const Strategy& strategy, LoweringCache& cache,
                          bool may_fold) {
    const auto lowered = [&](const Strategy& of) {
        return may_fold ? lower_folded(problem, of, cache) : lower(problem, of, cache);
    };
    if (!find_schedule_fault(problem, strategy)) return {.graph = lowered(strategy)};
    Strategy unscheduled = strategy;
    unscheduled.policy.schedule = {};
    return {.graph = lowered(unscheduled), .keeps_schedule = false};
}

class TimelineEvaluator : public Evaluator {
public:
    TimelineEvaluator(const Problem& problem, Scheduler scheduler)
        : problem_(problem), scheduler_(scheduler), cache_(problem) {}

    Evaluation evaluate(const Strategy& strategy) override {
        Lowered lowered =
            lower_what_may_be(problem_, strategy, cache_, may_fold(problem_, scheduler_));
        const TaskGraph& graph = lowered.graph;
        Evaluation evaluation = evaluation_of(problem_, graph, simulate(graph, scheduler_));
        evaluation.keeps_schedule = lowered.keeps_schedule;
        evaluation.value = value_of(graph, evaluation);
        const bool is_best = !best_ || evaluation.better_than(best_->evaluation);
        if (graph.is_folded() && evaluation.keeps_schedule && is_best)
            best_ = {strategy, evaluation, std::move(lowered.graph)};
        return evaluation;
    }
    std::optional<TaskGraph> take_folded(const Strategy& strategy) override {
        if (!best_ || best_->strategy != strategy) return std::nullopt;
        TaskGraph tasks = std::move(best_->tasks);
        best_.reset();
        return tasks;
    }
    std::int64_t task_count(const Strategy& strategy) override {
        return lower_what_may_be(problem_, strategy, cache_, may_fold(problem_, scheduler_))
            .graph.whole_size();
    }

protected:
    [[nodiscard]] const Problem& problem() const { return problem_; }

private:
    /// `evaluation` has the makespan as its value.
    [[nodiscard]] virtual Time value_of(const TaskGraph& /*graph*/,
                                        const Evaluation& evaluation) const {
        return evaluation.value;
    }

    /// What takes as long to lower as to evaluate, and is needed once more when a plan is made of it.
    struct Best {
        Strategy strategy;
        Evaluation evaluation;
        TaskGraph tasks;
    };

    const Problem& problem_;
    Scheduler scheduler_;
    LoweringCache cache_;
    std::optional<Best> best_;  ///< of those that are folded
};

class MaxLoadEvaluator final : public TimelineEvaluator {
public:
    using TimelineEvaluator::TimelineEvaluator;

    Evaluation evaluate(const Strategy& strategy) override {
        if (has_given_costs(problem())) return given_max_load(problem(), strategy);
        return TimelineEvaluator::evaluate(strategy);
    }

private:
    [[nodiscard]] Time value_of(const TaskGraph& graph,
                                const Evaluation& /*evaluation*/) const override {
        return busiest_resource(graph);
    }
};

/// Of other problems the makespan.
class SubgraphLatencyEvaluator final : public TimelineEvaluator {
public:
    SubgraphLatencyEvaluator(const Problem& problem, Scheduler scheduler)
        : TimelineEvaluator(problem, scheduler) {
        if (has_given_costs(problem)) latency_.emplace(problem);
    }

    Evaluation evaluate(const Strategy& strategy) override {
        return latency_ ? latency_->evaluate(strategy) : TimelineEvaluator::evaluate(strategy);
    }

private:
    std::optional<SubgraphLatency> latency_;
};

}  // namespace

bool is_makespan(const Problem& problem) {
    return problem.objective() != Objective::throughput && !has_given_costs(problem);
}

bool may_fold(const Problem& problem, Scheduler scheduler) {
    constexpr int kFewDevices = 16;
    return problem.device_count() >= kFewDevices &&
           (scheduler == Scheduler::rank || scheduler == Scheduler::pct);
}

bool folds(const Problem& problem, const Strategy& strategy, Scheduler scheduler) {
    return may_fold(problem, scheduler) && folds(problem, strategy);
}

std::unique_ptr<Evaluator> make_evaluator(const Problem& problem, Scheduler scheduler) {
    if (is_makespan(problem)) return std::make_unique<TimelineEvaluator>(problem, scheduler);
    if (problem.objective() == Objective::throughput) {
        return std::make_unique<MaxLoadEvaluator>(problem, scheduler);
    }
    return std::make_unique<SubgraphLatencyEvaluator>(problem, scheduler);
}

Evaluation evaluation_of(const Problem& problem, const TaskGraph& graph, const Timeline& timeline) {
    Evaluation evaluation;
    evaluation.value = timeline.makespan;
    const std::vector<Bytes> peak = peak_memory(graph, timeline.commit_order);
    for (std::size_t d = 0; d < peak.size(); ++d) {
        evaluation.devices.push_back({timeline.busy[d], peak[d]});
    }
    evaluation.overflow = memory_overflow(problem, evaluation.devices);
    evaluation.tasks = static_cast<std::int64_t>(graph.size());
    return evaluation;
}

std::string why_infeasible(const Problem& problem, const Strategy& strategy,
                           const Evaluation& evaluation) {
    if (!evaluation.keeps_schedule) return find_schedule_fault(problem, strategy).value_or("");
    constexpr int kNamed = 4;
    std::string text;
    int over = 0;
    for (int d = 0; d < problem.device_count(); ++d) {
        const Bytes needed = evaluation.devices[static_cast<std::size_t>(d)].memory;
        const Bytes capacity = problem.constraints().memory_capacity(d);
        if (needed <= capacity || ++over > kNamed) continue;
        text +=
            fmt::format("{}{} needs {} ({} bytes) and has {} ({} bytes)", text.empty() ? "" : "; ",
                        problem.machine().device(d).name, partita::to_text(needed), needed.raw(),
                        partita::to_text(capacity), capacity.raw());
    }
    if (over > kNamed) text += fmt::format("; and {} more devices", over - kNamed);
    return text;
}

Bytes memory_overflow(const Problem& problem, const std::vector<DeviceUse>& devices) {
    Bytes overflow;
    for (std::size_t d = 0; d < devices.size(); ++d) {
        const Bytes capacity = problem.constraints().memory_capacity(static_cast<int>(d));
        overflow += std::max(Bytes{0}, devices[d].memory - capacity);
    }
    return overflow;
}

}  // namespace partita::plan
