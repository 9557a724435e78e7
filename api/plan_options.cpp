// SPDX-License-Identifier: Apache-2.0
#include "api/plan_options.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "api/constraints.h"
#include "api/names.h"
#include "api/request.h"
#include "base/error.h"
#include "search/portfolio/searcher_table.h"

namespace partita::api {
namespace {

template <class Number>
void check_range(const char* option, Number value, Number least, Number most) {
    if (value >= least && value <= most) return;
    throw UsageError(
        fmt::format("{} {}: expected a number from {} to {}.", option, value, least, most));
}

std::optional<plan::Schedule> schedule_of(const PlanOptions& options) {
    const bool interleaved = options.schedule == Schedule::interleaved;
    check_range("chunks", options.chunks, interleaved ? 2 : 1, interleaved ? plan::kMostChunks : 1);
    if (!options.schedule) return std::nullopt;
    return plan::Schedule{.kind = to_internal(*options.schedule), .chunks = options.chunks};
}

TrainingOptions training_of(const PlanOptions& options) {
    if (options.micro_batches) {
        check_range("--micro-batches", *options.micro_batches, 1, plan::kMostMicroBatches);
    }
    TrainingOptions training;
    training.mode = to_internal(options.mode);
    if (options.optimizer) training.optimizer = to_internal(*options.optimizer);
    if (options.loss) training.loss = to_internal(*options.loss);
    if (options.gradient_sync) training.gradient_sync = to_internal(*options.gradient_sync);
    if (!options.loss_output.empty() && !options.loss) {
        throw UsageError(
            fmt::format("loss_output '{}': says of what, but not which loss. Give `loss` too.",
                        options.loss_output));
    }
    training.loss_output = options.loss_output;
    training.micro_batches = options.micro_batches;
    training.schedule = schedule_of(options);
    return training;
}

GoalOptions goal_of(const PlanOptions& options) {
    GoalOptions goal;
    goal.training = training_of(options);
    goal.fix = options.fix;
    goal.memory_limit = options.memory_limit;
    if (goal.memory_limit && *goal.memory_limit <= Bytes{0}) {
        throw UsageError(fmt::format("--memory-limit {}: expected an amount of bytes above 0.",
                                     goal.memory_limit->raw()));
    }
    using graph::SoapClass;
    const Splits& splits = options.splits;
    if (!splits.sample) goal.unsplit.push_back(SoapClass::sample);
    if (!splits.attribute) goal.unsplit.push_back(SoapClass::attribute);
    if (!splits.parameter) goal.unsplit.push_back(SoapClass::parameter);
    if (!splits.reduction) goal.unsplit.push_back(SoapClass::reduction);
    goal.whole_ops = !splits.sample && !splits.attribute && !splits.parameter && !splits.reduction;
    return goal;
}

std::vector<graph::OpId> ops_of(const char* option, const std::string& glob,
                                const LoadedModel& model) {
    std::vector<graph::OpId> ops = matching_ops(model.graph, glob);
    if (ops.empty()) {
        throw UsageError(
            fmt::format("{}: \"{}\" matches no op of {}. Model::ops() lists their names.", option,
                        glob, model.graph.name));
    }
    return ops;
}

void add_placements(const PlanOptions& options, const LoadedModel& model,
                    const cost::Machine& machine, plan::Constraints& constraints) {
    for (const Placement& placement : options.placements) {
        for (const int device : placement.devices) {
            check_range("placements: device", device, 0, machine.device_count() - 1);
        }
        if (placement.devices.empty()) {
            throw UsageError(
                fmt::format("placements: \"{}\": expected at least one device.", placement.match));
        }
        const auto ops = ops_of("placements", placement.match, model);
        if (const auto op = restrict_devices(constraints, model.graph, ops, placement.devices)) {
            throw UsageError(
                fmt::format("placements: \"{}\" leaves op '{}' no device, together with the ones "
                            "before it. Let "
                            "them share a device.",
                            placement.match, model.graph.op(*op).name));
        }
    }
    for (const std::vector<std::string>& globs : options.together) {
        std::vector<graph::OpId> all;
        for (const std::string& glob : globs) {
            const auto ops = ops_of("together", glob, model);
            all.insert(all.end(), ops.begin(), ops.end());
        }
        keep_together(constraints, std::move(all));
    }
}

}  // namespace

search::EngineOptions engine_options(const PlanOptions& options) {
    constexpr double kMostSeconds = 1e9;  // 30 years
    constexpr int kMostThreads = 1024;
    SearchOptions search;
    search.scheduler = to_internal(options.scheduler);
    if (options.time_limit) {
        search.time_limit_seconds = options.time_limit->count();
        check_range("--time-limit", *search.time_limit_seconds, 0.0, kMostSeconds);
    }
    search.evaluations = options.evaluations;
    if (search.evaluations && *search.evaluations < 1) {
        throw UsageError(
            fmt::format("--evaluations {}: expected a whole number >= 1.", *search.evaluations));
    }
    search.seed = options.seed;
    check_range("--threads", options.threads, 0, kMostThreads);
    search.threads = options.threads;
    search.exact_engine = to_internal(options.exact_engine);
    search.groups = options.groups;
    if (options.searchers.empty()) {
        throw UsageError("--searcher: expected at least one, e.g. auto.");
    }
    search::EngineOptions engine = search.engine_options();
    engine.searchers.clear();
    for (const std::string& list : options.searchers) {
        for (std::string& name : search::parse_searchers(list)) {
            engine.searchers.push_back(std::move(name));
        }
    }
    return engine;
}

LearningOptions learning_options(const PlanOptions& options) {
    LearningOptions learning{{.load_policy = options.load_policy,
                              .save_policy = options.save_policy,
                              .zero_shot = options.zero_shot,
                              .curve = options.learning_curve},
                             std::nullopt};
    if (options.reward != Reward::simulated) learning.reward = options.reward;
    return learning;
}

plan::ProblemOptions problem_options(const PlanOptions& options, const LoadedModel& model,
                                     const cost::Machine& machine) {
    const GoalOptions goal = goal_of(options);
    plan::ProblemOptions problem;
    goal.training.apply(problem.mode, problem.policy);
    problem.objective = options.objective ? to_internal(*options.objective)
                                          : default_objective(problem.mode, model);
    check_objective(problem.objective, problem.mode);
    goal.apply(model, machine, problem.constraints);
    goal.training.open(problem);
    add_placements(options, model, machine, problem.constraints);
    return problem;
}

}  // namespace partita::api
