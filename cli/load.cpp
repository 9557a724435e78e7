// SPDX-License-Identifier: Apache-2.0
#include "cli/load.h"

#include <fmt/format.h>

#include <utility>

#include "cli/constraints_file.h"
#include "cost/cost_model.h"
#include "cost/discover.h"
#include "cost/machine_file.h"
#include "cost/workload_machine.h"
#include "graph/error.h"
#include "importers/onnx/onnx_importer.h"
#include "importers/workload/workload.h"

namespace partita::cli {
namespace {

LoadedModel load_onnx(const ModelOptions& options) {
    importers::OnnxModel imported =
        importers::import_onnx(options.file, {.bindings = options.bindings,
                                              .input_shapes = options.shapes,
                                              .batch = options.batch,
                                              .inputs_dir = options.inputs,
                                              .unroll = options.unroll});
    LoadedModel model;
    model.file = options.file;
    model.graph = std::move(imported.graph);
    model.bindings = std::move(imported.bindings);
    model.shapes = options.shapes;
    model.unroll = options.unroll;
    model.input_sample_dims = std::move(imported.input_sample_dims);
    model.notes = std::move(imported.notes);
    return model;
}

/// Throws UsageError naming an option that binds what a workload does not have.
void refuse_bindings(const ModelOptions& options) {
    const char* given = !options.bindings.empty() ? "--bind"
                        : !options.shapes.empty() ? "--shape"
                        : options.batch           ? "--batch"
                        : !options.inputs.empty() ? "--inputs"
                        : options.unroll          ? "--unroll"
                                                  : nullptr;
    if (given != nullptr) {
        throw UsageError(
            fmt::format("{}: the workload {} has given costs and no dims. Leave the "
                        "option out.",
                        given, options.file.string()));
    }
}

LoadedModel load_workload(const ModelOptions& options) {
    refuse_bindings(options);
    importers::WorkloadModel workload = importers::import_workload(options.file);
    LoadedModel model;
    model.file = options.file;
    model.machine = cost::make_workload_machine(workload.graph, workload.accelerators,
                                                workload.cpus, workload.accelerator_memory);
    model.graph = std::move(workload.graph);
    model.together = importers::color_classes(model.graph);
    return model;
}

cost::Machine machine_for(const std::string& machine, const LoadedModel& model, Console& console) {
    if (!machine.empty()) return cost::load_machine(machine);
    if (model.machine) return *model.machine;
    console.detail("no --machine: discovering this host");
    return cost::discover_machine();
}

}  // namespace

bool is_json(const std::filesystem::path& file) {
    return file.extension() == ".json";
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

LoadedModel load_model(const ModelOptions& options) {
    return is_json(options.file) ? load_workload(options) : load_onnx(options);
}

std::unique_ptr<Loaded> make_loaded(LoadedModel model, cost::Machine machine,
                                    plan::ProblemOptions options) {
    auto loaded = std::unique_ptr<Loaded>(
        new Loaded{.model = std::move(model), .machine = std::move(machine), .problem = {}});
    options.input_sample_dims = loaded->model.input_sample_dims;
    loaded->problem.emplace(loaded->model.graph, loaded->machine, cost::default_cost_model(),
                            std::move(options));
    return loaded;
}

std::unique_ptr<Loaded> load_problem(const ModelOptions& model_options, const std::string& machine,
                                     const GoalOptions& goal, Console& console) {
    plan::ProblemOptions options;
    goal.training.apply(options.mode, options.policy);
    LoadedModel model = load_model(model_options);
    console.detail(fmt::format("read {}: {} ops with sources and outputs", model.file.string(),
                               model.graph.op_count()));
    options.objective = goal.objective.value_or(default_objective(options.mode, model));
    check_objective(options.objective, options.mode);
    cost::Machine chosen = machine_for(machine, model, console);
    options.constraints.together = model.together;
    goal.apply(options.constraints);
    if (!goal.fix.empty()) read_constraints(goal.fix, model.graph, chosen, options.constraints);
    return make_loaded(std::move(model), std::move(chosen), std::move(options));
}

}  // namespace partita::cli
