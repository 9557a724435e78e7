// SPDX-License-Identifier: Apache-2.0
#include "cli/inspect_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "cli/folded_table.h"
#include "cli/load.h"
#include "cli/machine_facts.h"
#include "cli/model_report.h"
#include "cli/planned.h"
#include "cli/shared_options.h"
#include "cli/summary.h"
#include "cost/machine/machine_file.h"
#include "plan/files/plan_file.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

enum class FileKind { model, workload, plan, machine };

/// A .json is what its keys say; a machine's reader then says what is wrong with any other.
FileKind kind_of(const std::filesystem::path& file) {
    std::error_code error;
    const bool exists = std::filesystem::exists(file, error);
    if (!is_json(file)) {
        const bool model = exists || file.extension() == ".onnx" || file.has_parent_path();
        return model ? FileKind::model : FileKind::machine;
    }
    const JsonFile json(read_text_file(file), file.string());
    const JsonField root = json.root();
    if (!root.is_object()) return FileKind::machine;
    if (root["nodes"].present() && root["edges"].present()) return FileKind::workload;
    const JsonField format = root["format"];
    const bool plan = format.is_text() && format.text({.what = "a format"}) == "partita-plan";
    return plan ? FileKind::plan : FileKind::machine;
}

/// Ops per operator and device, as the plan file alone tells.
struct PlanFacts {
    std::map<std::string, std::int64_t> types;
    std::map<int, std::int64_t> devices;
};

PlanFacts facts_of(const plan::Plan& plan) {
    PlanFacts facts;
    for (const plan::PlannedOp& op : plan.ops) {
        ++facts.types[op.type];
        std::set<int> devices;
        const plan::DeviceSet& own = op.config.devices;
        for (int part = 0; part < own.size(); ++part) devices.insert(own[part]);
        for (const int device : devices) ++facts.devices[device];
    }
    return facts;
}

std::string plan_text(const plan::Plan& plan) {
    const PlanFacts facts = facts_of(plan);
    std::string value = to_text(plan.value);
    if (plan.lower_bound) {
        value += fmt::format(", lower bound {}", to_text(*plan.lower_bound));
        if (*plan.lower_bound > Time{0}) {
            value += fmt::format(", gap {}", percent(plan.value / *plan.lower_bound - 1));
        }
    }
    std::string text = fact_line("plan", value);
    text += fact_line("model", fmt::format("{}\n{}", plan.model_file, plan.model_digest));
    if (const std::string options = model_options_of(plan); !options.empty()) {
        text += fact_line("options", options);
    }
    text += fact_line("objective", goal_line(plan.objective, plan.mode, plan.policy));
    text += fact_line("machine", machine_line(*plan.machine) + "\n" + plan.machine_digest);
    text +=
        fact_line("search", fmt::format("{} with {}, {}, seed {}", plan.searcher, plan.scheduler,
                                        count_of(plan.evaluations, "evaluation"), plan.seed));
    constexpr std::size_t kMostRows = 20;
    FoldedTable table({{.title = "device"},
                       {.title = "ops", .align = Align::right},
                       {.title = "busy", .align = Align::right},
                       {.title = "memory", .align = Align::right}});
    for (const auto& [device, ops] : facts.devices) {
        const auto d = static_cast<std::size_t>(device);
        const bool known = d < plan.devices.size();
        table.add(plan.machine->device(device).name,
                  {with_commas(ops), known ? to_text(plan.devices[d].busy) : "-",
                   known ? to_text(plan.devices[d].memory) : "-"},
                  known ? plan.devices[d].busy.raw() : 0);
    }
    return text + '\n' + table.to_text(kMostRows, "less busy device");
}

std::string plan_json(const plan::Plan& plan) {
    const PlanFacts facts = facts_of(plan);
    Json devices = Json::object();
    for (const auto& [device, ops] : facts.devices) {
        devices[plan.machine->device(device).name] = ops;
    }
    const Json json = {
        {"plan", plan.model_file},
        {"model_digest", plan.model_digest},
        {"bindings", plan.bindings},
        {"machine", plan.machine->name()},
        {"mode", name_of(plan.mode)},
        {"objective", name_of(plan.objective)},
        {"value_ps", plan.value.raw()},
        {"lower_bound_ps", plan.lower_bound ? Json(plan.lower_bound->raw()) : Json(nullptr)},
        {"ops", plan.ops.size()},
        {"types", facts.types},
        {"ops_per_device", devices},
        {"searcher", plan.searcher},
        {"evaluations", plan.evaluations}};
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

class InspectCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        app.add_option("WHAT", model_.file,
                       "a model, a workload, a plan, a machine file or a machine preset")
            ->required()
            ->type_name("");
        add_binding_options(app, model_);
        app.add_option("--machine", machine_, "say how fast a model can be there at best")
            ->type_name("M");
        app.add_flag("--ops", report_.ops, "list all ops and what they can be split along");
    }

    ExitCode run(Console& console) override {
        switch (kind_of(model_.file)) {
        case FileKind::model:
        case FileKind::workload: inspect_model(console); break;
        case FileKind::plan: {
            const plan::Plan plan = plan::read_plan(model_.file);
            console.print(plan_text(plan));
            console.json(plan_json(plan));
            break;
        }
        case FileKind::machine: {
            const cost::Machine machine = cost::load_machine(model_.file.string());
            console.print(machine_text(machine));
            console.json(cost::to_json(machine) + '\n');
            break;
        }
        }
        return ExitCode::done;
    }

private:
    void inspect_model(Console& console) {
        std::unique_ptr<Loaded> loaded;
        std::optional<LoadedModel> alone;
        if (machine_.empty()) {
            alone = load_model(model_);
        } else {
            loaded = load_problem(model_, machine_, {}, {}, console);
        }
        const LoadedModel& model = loaded ? loaded->model : *alone;
        const plan::Problem* problem = loaded ? &*loaded->problem : nullptr;
        if (console.options.json) {
            console.json(model_report_json(model, problem, report_));
        } else {
            console.print(model_report_text(model, problem, report_));
        }
    }

    ModelOptions model_;
    std::string machine_;
    ModelReportOptions report_;
};

}  // namespace

std::unique_ptr<Command> make_inspect_command() {
    return std::make_unique<InspectCommand>();
}

}  // namespace partita::cli
