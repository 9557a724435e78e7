// SPDX-License-Identifier: Apache-2.0
#include "api/request.h"

#include <utility>

#include "base/error.h"

namespace partita::api {

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
                     const search::SearchResult& result, const plan::Priced& priced,
                     const Costs& costs) {
    plan::Plan plan = search::make_plan(problem, result, priced);
    plan.model_file = model.file.filename().string();
    plan.bindings = model.bindings;
    plan.shapes = model.shapes;
    plan.unroll = model.unroll;
    plan.precision = model.precision;
    plan.products = model.products;
    plan.untie = model.untie;
    plan.fuse = model.fuse;
    plan.fused_attention = model.fused_attention;
    plan.attention_blocks = model.attention_blocks;
    plan.float32_gradients = model.float32_gradients;
    if (!costs.measured.empty()) plan.cost_sources.push_back(costs.measured);
    return plan;
}

}  // namespace partita::api
