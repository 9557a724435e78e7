// SPDX-License-Identifier: Apache-2.0
#include "api/plan_options.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "api/constraint_globs.h"
#include "api/constraints_file.h"
#include "api/names.h"
#include "api/option_table.h"
#include "api/request.h"
#include "base/error.h"
#include "graph/op_globs.h"
#include "search/portfolio/searcher_table.h"

namespace partita::api {
namespace {

std::vector<graph::OpId> ops_of(const char* option, const std::string& glob,
                                const LoadedModel& model) {
    std::vector<graph::OpId> ops = graph::matching_ops(model.graph, glob);
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
            if (device >= 0 && device < machine.device_count()) continue;
            throw UsageError(fmt::format("placements: device {}: expected a number from 0 to {}.",
                                         device, machine.device_count() - 1));
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

/// Of ops, on all devices and in all micro-batches: so many the search may choose with --strategy,
/// priced in a second.
constexpr std::int64_t kMostPartsOfAForm = 400'000;

/// What --strategy says must go with the rest.
void check_strategy(const PlanOptions& options, bool starts) {
    const search::ParallelConfig config = search::parse_parallel_config(options.strategy);
    const std::string with = options.framework.empty()
                                 ? ""
                                 : fmt::format(" with --framework {}", options.framework.string());
    const std::string asked = fmt::format("--strategy {}{}", options.strategy, with);
    for (const std::string& name : options.searchers) {
        if (name == "auto" || name == "grids") continue;
        throw UsageError(
            fmt::format("{}: searcher {} proposes other plans too. Leave --searcher "
                        "out.",
                        asked, name));
    }
    if (starts) {
        throw UsageError(asked +
                         ": a plan to start from may be of another form. Leave "
                         "--import-plan out.");
    }
    if (config.chunks.value_or(1) > 1 && config.pipeline == 1) {
        throw UsageError(fmt::format(
            "{}: vpp={} is of stages, and pp=1 has none. Say pp=2 or more, or leave vpp out.",
            asked, *config.chunks));
    }
    if (config.chunks && options.schedule && options.chunks != *config.chunks) {
        throw UsageError(
            fmt::format("{}: vpp={} is --schedule interleaved:{}. Leave one of them "
                        "out.",
                        asked, *config.chunks, *config.chunks));
    }
    if (config.zero.value_or(0) == 0) return;
    if (options.mode != Mode::training) {
        throw UsageError(asked + ": zero is for training. Add --mode training.");
    }
    if (options.gradient_sync == GradientSync::parameter_server) {
        throw UsageError(asked +
                         ": zero shares what a parameter server keeps alone. Leave "
                         "--gradient-sync out.");
    }
}

}  // namespace

void apply_training(const PlanOptions& options, plan::Mode& mode, plan::Policy& policy) {
    if (options.mode) mode = to_internal(*options.mode);
    if (mode != plan::Mode::training) {
        for (const OptionRow& row : option_table()) {
            if (!row.says_how_to_train || !row.write(options)) continue;
            throw UsageError(fmt::format(
                "{}: says how to train, but nothing is trained. Add --mode training.", row.option));
        }
    }
    if (options.optimizer) policy.optimizer = to_internal(*options.optimizer);
    if (options.gradient_sync) policy.gradient_sync = to_internal(*options.gradient_sync);
    if (options.micro_batches) policy.micro_batches = *options.micro_batches;
    if (options.schedule) {
        policy.schedule = {.kind = to_internal(*options.schedule), .chunks = options.chunks};
    }
    if (options.recompute) policy.recompute = to_internal(*options.recompute);
    if (!options.frozen.empty()) policy.frozen = options.frozen;
    static_assert(kOneBucket == plan::kOneBucket && kLayerBuckets == plan::kLayerBuckets);
    if (options.host_time) policy.host_time = to_internal(*options.host_time);
    if (options.clip_norm) policy.clip_norm = *options.clip_norm;
    if (options.bucket_bytes > Bytes{0}) policy.bucket_bytes = options.bucket_bytes;
    if (options.loss) {
        policy.loss = to_internal(*options.loss);
        policy.loss_output = options.loss_output;
    }
}

void apply_objective(const PlanOptions& options, const LoadedModel& model,
                     plan::ProblemOptions& problem) {
    problem.objective = options.objective ? to_internal(*options.objective)
                                          : default_objective(problem.mode, model);
    check_objective(problem.objective, problem.mode);
    if (options.contiguous && problem.objective != plan::Objective::throughput) {
        throw UsageError(
            "--contiguous: pieces that each sample passes once are for throughput. Add "
            "--objective throughput.");
    }
}

std::vector<std::string> apply_constraints(const PlanOptions& options, const LoadedModel& model,
                                           const cost::Machine& machine,
                                           plan::Constraints& constraints) {
    using graph::SoapClass;
    const Splits& splits = options.splits;
    constraints.together = model.together;
    constraints.memory_limit = options.memory_limit;
    constraints.unsplit.clear();
    if (!splits.sample) constraints.unsplit.push_back(SoapClass::sample);
    if (!splits.attribute) constraints.unsplit.push_back(SoapClass::attribute);
    if (!splits.parameter) constraints.unsplit.push_back(SoapClass::parameter);
    if (!splits.reduction) constraints.unsplit.push_back(SoapClass::reduction);
    constraints.whole_ops =
        !splits.sample && !splits.attribute && !splits.parameter && !splits.reduction;
    std::vector<std::string> notes;
    if (!options.fix.empty()) {
        notes = read_constraints(options.fix, model.graph, machine, constraints);
    }
    add_placements(options, model, machine, constraints);
    return notes;
}

void open_pipeline(const PlanOptions& options, const graph::OpGraph& graph,
                   const cost::Machine& machine, plan::ProblemOptions& problem) {
    if (problem.objective != plan::Objective::step_time) return;
    if (!options.micro_batches) {
        const int most = plan::most_chosen_micro_batches(machine.device_count());
        problem.constraints.most_micro_batches = most;
        // Few plans have the form that was said; each may take long.
        if (!options.strategy.empty()) {
            const auto parts = static_cast<std::int64_t>(graph.op_count()) * machine.device_count();
            problem.constraints.most_micro_batches = static_cast<int>(
                std::clamp<std::int64_t>(kMostPartsOfAForm / std::max<std::int64_t>(parts, 1), most,
                                         plan::kMostMicroBatches));
        }
    }
    problem.constraints.free_schedule = !options.schedule;
}

plan::ProblemOptions problem_options(const PlanOptions& options, const LoadedModel& model,
                                     const cost::Machine& machine) {
    plan::ProblemOptions problem;
    apply_training(options, problem.mode, problem.policy);
    apply_objective(options, model, problem);
    apply_constraints(options, model, machine, problem.constraints);
    open_pipeline(options, model.graph, machine, problem);
    return problem;
}

plan::Listed listed(const PlanOptions& options) {
    return options.fold ? plan::Listed::folded_if_many : plan::Listed::all;
}

search::EngineOptions engine_options(const PlanOptions& options) {
    search::EngineOptions engine;
    engine.searchers.clear();
    for (const std::string& list : options.searchers) {
        for (std::string& name : search::parse_searchers(list)) {
            engine.searchers.push_back(std::move(name));
        }
    }
    if (options.contiguous) engine.searchers = {"contiguous"};
    if (!options.strategy.empty()) {
        engine.parallel = search::parse_parallel_config(options.strategy);
        engine.searchers = {"grids"};
    }
    engine.scheduler = to_internal(options.scheduler);
    if (options.time_limit) {
        engine.time_limit = std::chrono::duration_cast<search::Duration>(*options.time_limit);
    }
    engine.evaluations = options.evaluations;
    engine.default_budget = !options.time_limit && !options.evaluations;
    engine.seed = options.seed;
    engine.threads = options.threads;
    engine.exact_engine = to_internal(options.exact_engine);
    engine.group = options.groups;
    engine.contiguous = options.contiguous;
    return engine;
}

void check_form(const PlanOptions& options, bool starts) {
    if (!options.strategy.empty()) check_strategy(options, starts);
    if (!options.contiguous) return;
    const std::string names = fmt::format("{}", fmt::join(options.searchers, ","));
    if (names != "auto" && names != "contiguous") {
        throw UsageError(fmt::format(
            "--contiguous: searcher {} places ops anywhere. Leave --searcher out.", names));
    }
    if (starts) {
        throw UsageError(
            "--contiguous: a plan to start from may not be contiguous. Leave "
            "--import-plan out.");
    }
}

rl::LearnOptions learn_options(const PlanOptions& options) {
    return {.load_policy = options.load_policy,
            .save_policy = options.save_policy,
            .zero_shot = options.zero_shot,
            .curve = options.learning_curve};
}

}  // namespace partita::api
