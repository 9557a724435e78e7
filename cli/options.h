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
#include "graph/soap.h"
#include "graph/tensor.h"
#include "graph/units.h"
#include "plan/problem.h"
#include "plan/simulate.h"
#include "plan/strategy.h"
#include "search/engine.h"

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

/// How training goes. Empty: not given, so the default or what a plan says.
struct TrainingOptions {
    std::optional<plan::Mode> mode;
    std::optional<plan::Optimizer> optimizer;
    std::optional<plan::LossKind> loss;
    std::string loss_output;  ///< with `loss`; "" = all float outputs
    std::optional<plan::GradientSync> gradient_sync;
    std::optional<int> micro_batches;        ///< of inference too
    std::optional<plan::Schedule> schedule;  ///< the same

    /// Replaces what was given. Throws UsageError for training options without training.
    void apply(plan::Mode& to_mode, plan::Policy& to_policy) const;
};

/// What else is asked of a plan.
struct GoalOptions {
    TrainingOptions training;
    std::optional<plan::Objective> objective;  ///< empty: the default of mode and model
    std::filesystem::path fix;                 ///< empty: none
    std::optional<Bytes> memory_limit;
    bool whole_ops = false;                 ///< --dims O
    std::vector<graph::SoapClass> unsplit;  ///< classes that --dims leaves out

    /// Writes what restricts the search, except for --fix.
    void apply(plan::Constraints& constraints) const;
};

/// Searcher, scheduler and budget.
struct SearchOptions {
    std::string searcher = "auto";
    plan::Scheduler scheduler = plan::Scheduler::pct;
    std::optional<double> time_limit_seconds;  ///< empty: 10, or none with --evaluations
    std::optional<std::int64_t> evaluations;
    std::uint64_t seed = 1;
    int threads = 0;  ///< 0 = one per core
    bool groups = true;

    /// Everything but the searchers.
    [[nodiscard]] search::EngineOptions engine_options() const;
};

void add_model_options(CLI::App& app, ModelOptions& options);
/// Without MODEL itself: for commands whose model is the second positional or absent.
void add_binding_options(CLI::App& app, ModelOptions& options);
void add_machine_option(CLI::App& app, std::string& machine);
void add_training_options(CLI::App& app, TrainingOptions& options);
void add_constraint_options(CLI::App& app, GoalOptions& options);
/// Training, objective and constraints.
void add_goal_options(CLI::App& app, GoalOptions& options);
void add_budget_options(CLI::App& app, SearchOptions& options);
void add_scheduler_option(CLI::App& app, std::optional<plan::Scheduler>& scheduler);
void add_search_options(CLI::App& app, SearchOptions& options);
void add_console_options(CLI::App& app, ConsoleOptions& options, bool with_json = true);

/// "512", "80GiB", "16 GB": an amount of bytes above 0. Throws UsageError naming `option`.
Bytes parse_bytes(std::string_view text, std::string_view option);

}  // namespace partita::cli
