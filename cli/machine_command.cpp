// SPDX-License-Identifier: Apache-2.0
#include "cli/machine_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "api/outputs.h"
#include "base/files.h"
#include "cli/machine_facts.h"
#include "cli/table.h"
#include "cost/discovery/discover.h"
#include "cost/machine/machine_file.h"
#include "plan/files/plan_file.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

class MachineCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        app.require_subcommand(1);
        app.fallthrough();
        list_ = app.add_subcommand("list", "all presets");
        show_ = app.add_subcommand("show", "one machine; with --json its file");
        show_->add_option("NAME", name_, "a preset with optional size, or a machine .json")
            ->required()
            ->type_name("");
        discover_ = app.add_subcommand("discover", "this host; with --json or -o its file");
        discover_->add_option("-o,--output", file_, "write the machine file")->type_name("FILE");
    }

    ExitCode run(Console& console) override {
        if (list_->parsed()) {
            list(console);
        } else if (show_->parsed()) {
            show(cost::load_machine(name_), console);
        } else {
            api::check_outputs({{"-o", file_}}, {});
            const cost::Machine machine = cost::discover_machine();
            if (!file_.empty()) write_file(file_, cost::to_json(machine) + '\n');
            show(machine, console);
            if (!file_.empty()) console.print(fmt::format("wrote {}\n", file_.string()));
        }
        return ExitCode::done;
    }

private:
    static void list(Console& console) {
        Table table({{.title = "preset"}, {.title = "what it is"}});
        Json json = Json::array();
        for (const cost::Preset& preset : cost::presets()) {
            table.add_row({preset.name, preset.summary});
            json.push_back({{"name", preset.name}, {"summary", preset.summary}});
        }
        console.print(table.to_text());
        console.json(json.dump(2) + '\n');
    }

    static void show(const cost::Machine& machine, Console& console) {
        console.print(machine_text(machine));
        console.json(cost::to_json(machine) + '\n');
    }

    CLI::App* list_ = nullptr;  // owned by the App
    CLI::App* show_ = nullptr;
    CLI::App* discover_ = nullptr;
    std::string name_;
    std::filesystem::path file_;
};

}  // namespace

std::unique_ptr<Command> make_machine_command() {
    return std::make_unique<MachineCommand>();
}

}  // namespace partita::cli
