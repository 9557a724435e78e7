// SPDX-License-Identifier: Apache-2.0
#include "bench/case_models.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "api/plan_options.h"
#include "bench/networks.h"
#include "bench/repository.h"
#include "cost/cost_model.h"
#include "cost/machine/machine_file.h"
#include "cost/machine/workload_machine.h"
#include "importers/onnx/onnx_importer.h"
#include "importers/workload/workload.h"

namespace partita::bench {

std::function<CaseModel()> network(const char* name, std::int64_t batch, const char* machine) {
    return [=] { return CaseModel{make_network(name, batch), cost::load_machine(machine), {}}; };
}

std::function<CaseModel()> onnx(const char* name, std::map<std::string, std::int64_t> bindings,
                                const char* machine) {
    return [name, machine, bindings = std::move(bindings)] {
        importers::OnnxOptions options;
        options.bindings = bindings;
        auto model = importers::import_onnx(
            repository() / "examples/models" / fmt::format("{}.onnx", name), options);
        return CaseModel{std::move(model.graph), cost::load_machine(machine), {}};
    };
}

std::function<CaseModel()> workload(const char* file) {
    return [=] {
        auto model = importers::import_workload(repository() / "examples/workloads" /
                                                fmt::format("{}.json", file));
        cost::Machine machine = cost::make_workload_machine(model.graph, model.accelerators,
                                                            model.cpus, model.accelerator_memory);
        auto together = importers::color_classes(model.graph);
        return CaseModel{std::move(model.graph), std::move(machine), std::move(together)};
    };
}

plan::Problem make_problem(const Case& of, const CaseModel& model) {
    plan::ProblemOptions kind{.mode = of.mode, .objective = of.objective};
    kind.constraints.together = model.together;
    api::open_pipeline({}, model.graph, model.machine, kind);
    return plan::Problem(model.graph, model.machine, cost::default_cost_model(), kind);
}

search::EngineOptions engine_options(std::string_view searcher, const CaseBudget& budget) {
    search::EngineOptions engine;
    engine.searchers = {std::string(searcher)};
    engine.seed = budget.seed;
    engine.threads = budget.threads;
    if (budget.seconds > 0) {
        engine.time_limit = std::chrono::duration_cast<search::Duration>(
            std::chrono::duration<double>(budget.seconds));
    }
    if (budget.evaluations > 0) engine.evaluations = budget.evaluations;
    return engine;
}

}  // namespace partita::bench
