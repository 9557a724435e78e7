// SPDX-License-Identifier: Apache-2.0
#include "cli/verify_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/planned.h"
#include "cli/table.h"
#include "plan/files/verify.h"

namespace partita::cli {
namespace {

using Json = nlohmann::ordered_json;

class VerifyCommand final : public Command {
public:
    void add_options(CLI::App& app) override {
        add_planned_options(app, options_);
        add_plan_options(app, options_.asked, {api::OptionSet::constraints});
    }

    ExitCode run(Console& console) override {
        const Planned planned = load_planned(options_, console);
        const std::vector<std::string> findings = plan::verify(
            *planned.loaded->problem, planned.plan, {.ignore_digests = options_.ignore_digest});
        const Json json = {{"legal", findings.empty()}, {"findings", findings}};
        console.json(json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
        if (findings.empty()) {
            console.print(
                fmt::format("{}: legal: {} on {}, {}\n", options_.plan.string(),
                            count_of(static_cast<std::int64_t>(planned.plan.ops.size()), "op"),
                            planned.loaded->machine.name(), to_text(planned.plan.value)));
            return ExitCode::done;
        }
        for (const std::string& finding : findings) console.print(finding + '\n');
        console.err() << fmt::format(
            "partita: {}: not legal, {}\n", options_.plan.string(),
            count_of(static_cast<std::int64_t>(findings.size()), "finding"));
        return ExitCode::check_failed;
    }

private:
    PlannedOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_verify_command() {
    return std::make_unique<VerifyCommand>();
}

}  // namespace partita::cli
