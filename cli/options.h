// SPDX-License-Identifier: Apache-2.0
//
// The options that several commands share: typed structs, each declared in one place, filled once
// while the command line is parsed, and checked there. A value that cannot be read throws
// UsageError naming the option, what came and what is expected.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "api/request.h"
#include "base/units.h"
#include "cli/console.h"
#include "cost/machine/what_if.h"
#include "plan/simulation/simulate.h"

#include <partita/model.h>

namespace partita::cli {

using api::GoalOptions;
using api::SearchOptions;
using api::TrainingOptions;

/// MODEL and what binds its symbolic dims.
struct ModelOptions : ImportOptions {
    std::filesystem::path file;
};

void add_model_options(CLI::App& app, ModelOptions& options);
/// Without MODEL itself: for commands whose model is the second positional or absent.
void add_binding_options(CLI::App& app, ModelOptions& options);
void add_machine_option(CLI::App& app, std::string& machine);
/// --set and --scale: other figures than the machine's.
void add_what_if_options(CLI::App& app, cost::WhatIf& changes);
void add_training_options(CLI::App& app, TrainingOptions& options);
void add_constraint_options(CLI::App& app, GoalOptions& options);
void add_profile_option(CLI::App& app, GoalOptions& options);
/// Training, objective, constraints and costs.
void add_goal_options(CLI::App& app, GoalOptions& options);
void add_budget_options(CLI::App& app, SearchOptions& options);
void add_scheduler_option(CLI::App& app, std::optional<plan::Scheduler>& scheduler);
void add_search_options(CLI::App& app, SearchOptions& options);
void add_console_options(CLI::App& app, ConsoleOptions& options, bool with_json = true);

/// "512", "80GiB", "16 GB": an amount of bytes above 0. Throws UsageError naming `option`.
Bytes parse_bytes(std::string_view text, std::string_view option);

}  // namespace partita::cli
