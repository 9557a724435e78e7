// SPDX-License-Identifier: Apache-2.0
#include "cli/planned.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/plan_options.h"
#include "api/request.h"
#include "base/error.h"
#include "cost/machine/machine_file.h"

namespace partita::cli {
namespace {

bool binds_anything(const ModelOptions& options) {
    return !options.bindings.empty() || !options.shapes.empty() || options.batch ||
           !options.inputs.empty();
}

/// The model with the plan's bindings, unless other ones are given.
LoadedModel load_planned_model(const plan::Plan& plan, const PlannedOptions& options) {
    ModelOptions model = options.model;
    model.unroll = model.unroll || plan.unroll;
    if (is_json(model.file)) return load_model(model);
    if (model.untie.empty()) model.untie = plan.untie;
    if (model.fuse.empty()) model.fuse = plan.fuse;
    if (!model.fused_attention) {
        model.fused_attention = plan.fused_attention;
        model.attention_blocks = plan.attention_blocks;
    }
    if (!model.precision) {
        model.precision = plan.precision;
        if (!model.products) model.products = plan.products;
        if (!model.float32_gradients) model.float32_gradients = plan.float32_gradients;
    }
    model.bindings.insert(plan.bindings.begin(), plan.bindings.end());
    model.shapes.insert(plan.shapes.begin(), plan.shapes.end());
    try {
        return load_model(model);
    } catch (const UsageError& error) {
        // The plan's own bindings do not suit the model: it is not the plan's model.
        if (binds_anything(options.model)) throw;
        throw MismatchError(fmt::format("{}: was made for another model, '{}': {}",
                                        options.plan.string(), plan.model_file, error.what()));
    }
}

/// As --precision takes it; "": the model's own.
std::string precision_of(const plan::Plan& plan) {
    using graph::DType;
    if (!plan.precision && !plan.products && !plan.float32_gradients) return "";
    const bool tf32 = plan.products == graph::ProductType::tf32;
    const std::string_view type = tf32                               ? "tf32"
                                  : !plan.precision                  ? "model"
                                  : plan.precision == DType::float32 ? "fp32"
                                  : plan.precision == DType::float16 ? "fp16"
                                                                     : "bf16";
    return fmt::format("{}{}{}", type, plan.float32_gradients ? ",grads=fp32" : "",
                       plan.products && !tf32 ? ",products=fp8" : "");
}

}  // namespace

std::string model_options_of(const plan::Plan& plan) {
    std::vector<std::string> options;
    for (const auto& [name, value] : plan.bindings) {
        options.push_back(fmt::format("--bind {}={}", name, value));
    }
    for (const auto& [input, shape] : plan.shapes) {
        options.push_back(fmt::format("--shape {}:{}", input, fmt::join(shape, "x")));
    }
    if (const std::string precision = precision_of(plan); !precision.empty()) {
        options.push_back("--precision " + precision);
    }
    if (plan.fused_attention) {
        options.push_back("--attention " + (plan.attention_blocks > 1
                                                ? fmt::format("blocks={}", plan.attention_blocks)
                                                : "fused"));
    }
    for (const std::string& kernel : plan.fuse) {
        options.push_back(fmt::format("--fuse '{}'", kernel));
    }
    for (const std::string& glob : plan.untie) options.push_back(fmt::format("--untie '{}'", glob));
    if (plan.unroll) options.emplace_back("--unroll");
    return fmt::format("{}", fmt::join(options, " "));
}

void add_planned_options(CLI::App& app, PlannedOptions& options) {
    app.add_option("PLAN", options.plan, "what `partita plan` wrote")->required()->type_name("");
    add_model_options(app, options.model);
    app.add_option("--machine", options.machine, "another machine than the plan's")->type_name("M");
    app.add_flag("--ignore-digest", options.ignore_digest,
                 "accept a plan of another version of model, machine or costs");
    add_plan_options(app, options.asked, {api::OptionSet::costs});
}

Planned load_planned(const PlannedOptions& options, Console& console) {
    Planned planned{.plan = plan::read_plan(options.plan), .loaded = nullptr};
    const plan::Plan& plan = planned.plan;
    LoadedModel model = load_planned_model(plan, options);
    const std::string digest = "sha256:" + graph::digest(model.graph);
    if (digest != plan.model_digest && !options.ignore_digest) {
        const std::string made = model_options_of(plan);
        throw MismatchError(fmt::format(
            "{}: model.digest: was made for '{}' with {}; '{}' has {}. It was made with "
            "{}. Give that model and these options, or no options at all, as the plan has "
            "them, plan again, or accept it with --ignore-digest.",
            options.plan.string(), plan.model_file, plan.model_digest,
            model.file.filename().string(), digest,
            made.empty() ? "no options of the model" : made));
    }
    console.detail(
        fmt::format("{} is the model of {}", model.file.string(), options.plan.string()));
    cost::Machine machine =
        options.machine.empty() ? *plan.machine : cost::load_machine(options.machine);
    if (!options.what_if.empty()) machine = cost::changed(machine, options.what_if);

    plan::ProblemOptions problem = api::problem_options(plan);
    api::apply_training(options.asked, problem.mode, problem.policy);
    if (problem.mode != plan.mode && problem.objective != plan::Objective::throughput) {
        problem.objective = api::default_objective(problem.mode, model);
    }
    for (const std::string& note :
         api::apply_constraints(options.asked, model, machine, problem.constraints)) {
        console.note(note);
    }
    const bool as_planned = problem.mode == plan.mode && problem.policy == plan.policy;
    try {
        api::check_objective(problem.objective, problem.mode);
        planned.loaded = make_loaded(std::move(model), std::move(machine), options.asked.profile,
                                     std::move(problem), console);
    } catch (const UsageError& error) {
        // Nothing else was asked for than what the file says.
        if (!as_planned) throw;
        throw InputError(fmt::format("{}: {}", options.plan.string(), error.what()));
    }
    return planned;
}

}  // namespace partita::cli
