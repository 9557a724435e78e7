// SPDX-License-Identifier: Apache-2.0
#include "cli/export_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "api/exports.h"
#include "api/outputs.h"
#include "cli/planned.h"

namespace partita::cli {
namespace {

class ExportCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_planned_options(app, options_);
        std::string formats;
        for (const api::ExportFormat& format : api::export_formats()) {
            formats +=
                fmt::format("{}{} ({})", formats.empty() ? "" : ", ", format.name, format.summary);
        }
        app.add_option("--format", format_, formats)->required()->type_name("F");
        app.add_option("-o,--output", file_, "the file to write; of parts the folder")
            ->required()
            ->type_name("FILE");
    }

    ExitCode run(Console& console) override {
        api::check_export_format(format_);
        if (!api::writes_folder(format_)) {
            api::check_outputs({{"-o", file_}},
                               {options_.plan, options_.model.file, options_.machine});
        }
        const Planned planned = load_planned(options_, console);
        const auto written = api::write_export(format_, planned.loaded->model,
                                               *planned.loaded->problem, planned.plan, file_);
        nlohmann::ordered_json json = {{"format", format_}, {"file", file_.string()}};
        for (const std::filesystem::path& file : written) {
            console.print(fmt::format("wrote {}\n", file.string()));
            if (written.size() > 1) json["files"].push_back(file.string());
        }
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
