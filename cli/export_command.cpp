// SPDX-License-Identifier: Apache-2.0
#include "cli/export_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "api/outputs.h"
#include "api/pricing.h"
#include "base/error.h"
#include "base/files.h"
#include "cli/planned.h"
#include "plan/exporters/exporter.h"

namespace partita::cli {
namespace {

class ExportCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_planned_options(app, options_);
        std::string formats;
        for (const plan::ExporterRow& row : plan::exporter_table()) {
            formats += fmt::format("{}{} ({})", formats.empty() ? "" : ", ", row.name, row.summary);
        }
        app.add_option("--format", format_, formats)->required()->type_name("F");
        app.add_option("-o,--output", file_, "the file to write")->required()->type_name("FILE");
    }

    ExitCode run(Console& console) override {
        plan::check_format(format_);
        api::check_outputs({{"-o", file_}}, {options_.plan, options_.model.file, options_.machine});
        const Planned planned = load_planned(options_, console);
        const plan::Problem& problem = *planned.loaded->problem;
        const plan::Strategy strategy = plan::strategy_of(planned.plan, problem);
        const plan::Priced priced = api::price_as_planned(problem, strategy, planned.plan);
        write_file(file_, plan::export_as(format_, {.problem = problem,
                                                    .strategy = strategy,
                                                    .tasks = &priced.tasks,
                                                    .timeline = priced.timeline ? &*priced.timeline
                                                                                : nullptr}));
        console.print(fmt::format("wrote {}\n", file_.string()));
        const nlohmann::ordered_json json = {{"format", format_}, {"file", file_.string()}};
        console.json(json.dump(2) + '\n');
        return ExitCode::done;
    }

private:
    PlannedOptions options_;
    std::string format_;
    std::filesystem::path file_;
};

}  // namespace

std::unique_ptr<Command> make_export_command() {
    return std::make_unique<ExportCommand>();
}

}  // namespace partita::cli
