// SPDX-License-Identifier: Apache-2.0
//
// The options that several commands share: typed structs, each declared in one place, filled once
// while the command line is parsed, and checked there. A value that cannot be read throws
// UsageError naming the option, what came and what is expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/console.h"
#include "graph/tensor.h"
#include "graph/units.h"
#include "plan/problem.h"
#include "plan/simulate.h"
#include "plan/strategy.h"

namespace partita::cli {

/// MODEL and what binds its symbolic dims.
struct ModelOptions {
    std::filesystem::path file;
    std::map<std::string, std::int64_t> bindings;  ///< --bind NAME=N
    std::map<std::string, graph::Shape> shapes;    ///< --shape INPUT:AxBxC
    std::optional<std::int64_t> batch;             ///< --batch N
    std::filesystem::path inputs;                  ///< --inputs DIR; empty = none
    bool unroll = false;
};

/// What is asked of a plan. Empty optionals: the default depends on the model or the mode.
struct GoalOptions {
    plan::Mode mode = plan::Mode::inference;
    std::optional<plan::Objective> objective;
    plan::Optimizer optimizer = plan::Optimizer::sgd;
    plan::LossKind loss = plan::LossKind::sum;
    std::string loss_output;  ///< "" = all float outputs
    std::filesystem::path fix;
    std::optional<Bytes> memory_limit;

    [[nodiscard]] plan::Policy policy() const;
};

/// Searcher, scheduler and budget.
struct SearchOptions {
    std::string searcher = "auto";
    plan::Scheduler scheduler = plan::Scheduler::pct;
    double time_limit_seconds = 10;
    std::optional<std::int64_t> evaluations;
    std::uint64_t seed = 1;
    int threads = 0;  ///< 0 = one per core
    bool groups = true;
};

void add_model_options(CLI::App& app, ModelOptions& options);
/// The last four only: for commands whose model is the second positional or absent.
void add_binding_options(CLI::App& app, ModelOptions& options);
void add_machine_option(CLI::App& app, std::string& machine);
void add_mode_option(CLI::App& app, GoalOptions& options);
void add_goal_options(CLI::App& app, GoalOptions& options);
void add_budget_options(CLI::App& app, SearchOptions& options);
void add_scheduler_option(CLI::App& app, std::optional<plan::Scheduler>& scheduler);
void add_search_options(CLI::App& app, SearchOptions& options);
void add_ignore_digest_option(CLI::App& app, bool& ignore);
void add_console_options(CLI::App& app, ConsoleOptions& options, bool with_json = true);

/// Options that belong to the interface but not to this version: hidden from the help, and a
/// UsageError that says what there is instead. A value that means "without it" is accepted.
void add_later_options(CLI::App& app);

/// "512", "80GiB", "16 GB": an amount of bytes above 0. Throws UsageError naming `option`.
Bytes parse_bytes(std::string_view text, std::string_view option);

}  // namespace partita::cli
