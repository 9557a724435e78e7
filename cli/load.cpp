// SPDX-License-Identifier: Apache-2.0
#include "cli/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "api/plan_options.h"
#include "api/request.h"
#include "cost/discovery/discover.h"
#include "cost/machine/machine_file.h"

namespace partita::cli {
namespace {

cost::Machine machine_for(const std::string& machine, const LoadedModel& model, Console& console) {
    if (!machine.empty()) return cost::load_machine(machine);
    if (model.machine) return *model.machine;
    console.detail("no --machine: discovering this host");
    return cost::discover_machine();
}

/// Element types that ops of the model compute and the machine names no rate of; rising.
std::string missing_rates(const LoadedModel& model, const cost::Machine& machine) {
    std::set<graph::DType> used;
    for (const graph::Op& op : model.graph.ops()) {
        if (op.kind != graph::OpKind::compute || op.given) continue;
        for (const graph::TensorId t : op.outputs) {
            if (t.valid()) used.insert(model.graph.tensor(t).dtype);
        }
    }
    std::string names;
    for (const graph::DType dtype : used) {
        const bool known = std::ranges::all_of(machine.devices(), [&](const cost::Device& device) {
            return device.names_rate_of(dtype);
        });
        if (known || !graph::is_floating_point(dtype)) continue;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", graph::name_of(dtype));
    }
    return names;
}

/// Names of devices that have no units for the model's products; "": all have.
std::string without_products(const LoadedModel& model, const cost::Machine& machine) {
    std::set<std::string> models;
    for (const cost::Device& device : machine.devices()) {
        const bool has =
            device.has_products(model.products.value_or(graph::ProductType::as_stored));
        if (!has) models.insert(device.model);
    }
    return fmt::format("{}", fmt::join(models, ", "));
}

}  // namespace

LoadedModel load_model(const ModelOptions& options) {
    return api::load_model(options.file, options);
}

std::unique_ptr<Loaded> make_loaded(LoadedModel model, cost::Machine machine,
                                    const std::filesystem::path& profile,
                                    plan::ProblemOptions options, Console& console) {
    auto loaded = std::unique_ptr<Loaded>(new Loaded{
        .model = std::move(model), .machine = std::move(machine), .costs = {}, .problem = {}});
    loaded->costs = api::load_costs(profile, loaded->machine);
    for (const std::string& note : loaded->costs.notes) console.note(note);
    if (const std::string names = missing_rates(loaded->model, loaded->machine); !names.empty()) {
        console.note(
            fmt::format("machine '{}' names no matrix_flops of {}: priced as float32. Add them to "
                        "the machine file.",
                        loaded->machine.name(), names));
    }
    if (const std::string devices = without_products(loaded->model, loaded->machine);
        !devices.empty()) {
        console.note(
            fmt::format("{}: no matrix_flops of {} are named: such products are priced in "
                        "the type of their operands. Add them to the machine file.",
                        devices, graph::name_of(*loaded->model.products)));
    }
    loaded->problem.emplace(
        api::make_problem(loaded->model, loaded->machine, std::move(options), loaded->costs));
    return loaded;
}

std::unique_ptr<Loaded> load_problem(const ModelOptions& model_options, const std::string& machine,
                                     const cost::WhatIf& changes, const PlanOptions& asked,
                                     Console& console) {
    plan::ProblemOptions options;
    api::apply_training(asked, options.mode, options.policy);
    LoadedModel model = load_model(model_options);
    console.detail(fmt::format("read {}: {} ops with sources and outputs", model.file.string(),
                               model.graph.op_count()));
    for (const std::string& note : model.details) console.detail(note);
    api::apply_objective(asked, model, options);
    cost::Machine chosen = machine_for(machine, model, console);
    if (!changes.empty()) chosen = cost::changed(chosen, changes);
    for (const std::string& note :
         api::apply_constraints(asked, model, chosen, options.constraints)) {
        console.note(note);
    }
    api::open_pipeline(asked, model.graph, chosen, options);
    return make_loaded(std::move(model), std::move(chosen), asked.profile, std::move(options),
                       console);
}

}  // namespace partita::cli
