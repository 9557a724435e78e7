// SPDX-License-Identifier: Apache-2.0
#include "api/request.h"

#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "api/constraints_file.h"
#include "base/error.h"

namespace partita::api {

void TrainingOptions::apply(plan::Mode& to_mode, plan::Policy& to_policy) const {
    to_mode = mode.value_or(to_mode);
    if (to_mode != plan::Mode::training && (optimizer || loss || gradient_sync)) {
        throw UsageError(
            fmt::format("{}: says how to train, but nothing is trained. Add --mode "
                        "training.",
                        optimizer ? "--optimizer"
                        : loss    ? "--loss"
                                  : "--gradient-sync"));
    }
    to_policy.optimizer = optimizer.value_or(to_policy.optimizer);
    to_policy.gradient_sync = gradient_sync.value_or(to_policy.gradient_sync);
    to_policy.micro_batches = micro_batches.value_or(to_policy.micro_batches);
    to_policy.schedule = schedule.value_or(to_policy.schedule);
    if (loss) {
        to_policy.loss = *loss;
        to_policy.loss_output = loss_output;
    }
}

void TrainingOptions::open(plan::ProblemOptions& problem) const {
    if (problem.objective != plan::Objective::step_time) return;
    if (!micro_batches) problem.constraints.most_micro_batches = plan::kMostChosenMicroBatches;
    problem.constraints.free_schedule = !schedule;
}

std::vector<std::string> GoalOptions::apply(const LoadedModel& model, const cost::Machine& machine,
                                            plan::Constraints& constraints) const {
    constraints.together = model.together;
    constraints.memory_limit = memory_limit;
    constraints.whole_ops = whole_ops;
    constraints.unsplit = unsplit;
    if (fix.empty()) return {};
    return read_constraints(fix, model.graph, machine, constraints);
}

search::EngineOptions SearchOptions::engine_options() const {
    search::EngineOptions options;
    options.scheduler = scheduler;
    options.evaluations = evaluations;
    options.seed = seed;
    options.threads = threads;
    options.exact_engine = exact_engine;
    options.group = groups;
    options.contiguous = contiguous;
    options.default_budget = !time_limit_seconds && !evaluations;
    if (time_limit_seconds) {
        options.time_limit = std::chrono::duration_cast<search::Duration>(
            std::chrono::duration<double>(*time_limit_seconds));
    }
    return options;
}

plan::Objective default_objective(plan::Mode mode, const LoadedModel& model) {
    if (mode == plan::Mode::training) return plan::Objective::step_time;
    return model.is_workload() ? plan::Objective::throughput : plan::Objective::latency;
}

void check_objective(plan::Objective objective, plan::Mode mode) {
    const bool training = mode == plan::Mode::training;
    if (objective == plan::Objective::latency && training) {
        throw UsageError("--objective latency: of inference. Use step-time with --mode training.");
    }
    if (objective == plan::Objective::step_time && !training) {
        throw UsageError("--objective step-time: of training. Add --mode training.");
    }
}

plan::ProblemOptions problem_options(const plan::Plan& plan) {
    plan::ProblemOptions options;
    options.mode = plan.mode;
    options.objective = plan.objective;
    options.policy = plan.policy;
    return options;
}

plan::Problem make_problem(const LoadedModel& model, const cost::Machine& machine,
                           plan::ProblemOptions options, const Costs& costs) {
    options.input_sample_dims = model.input_sample_dims;
    return {model.graph, machine, costs.model, std::move(options), costs.transfers};
}

plan::Plan make_plan(const LoadedModel& model, const plan::Problem& problem,
                     const search::SearchResult& result, const Costs& costs) {
    plan::Plan plan = search::make_plan(problem, result);
    plan.model_file = model.file.filename().string();
    plan.bindings = model.bindings;
    plan.shapes = model.shapes;
    plan.unroll = model.unroll;
    if (!costs.measured.empty()) plan.cost_sources.push_back(costs.measured);
    return plan;
}

}  // namespace partita::api
