// SPDX-License-Identifier: Apache-2.0
//
// The options that several commands share: typed structs, each declared in one place, filled once
// while the command line is parsed, and checked there; those of plans in api/option_table.h. A
// value that cannot be read throws UsageError naming the option, what came and what is expected.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "api/option_table.h"
#include "cli/console.h"
#include "cost/machine/what_if.h"

#include <partita/model.h>
#include <partita/search.h>

namespace partita::cli {

/// MODEL and what binds its symbolic dims.
struct ModelOptions : ImportOptions {
    std::filesystem::path file;
};

/// `batches`: where the command takes several sizes, all of them; else null.
void add_model_options(CLI::App& app, ModelOptions& options,
                       std::vector<std::int64_t>* batches = nullptr);
/// Without MODEL itself: for commands whose model is the second positional or absent.
void add_binding_options(CLI::App& app, ModelOptions& options,
                         std::vector<std::int64_t>* batches = nullptr);
/// `several`: does the command take a list?
void add_machine_option(CLI::App& app, std::string& machine, bool several = false);
/// --set and --scale: other figures than the machine's.
void add_what_if_options(CLI::App& app, cost::WhatIf& changes);
/// The options of plans in these sets, in the order of api::option_table().
void add_plan_options(CLI::App& app, PlanOptions& options,
                      std::initializer_list<api::OptionSet> sets);
/// One of them; `help`: "" for its own.
CLI::Option* add_plan_option(CLI::App& app, PlanOptions& options, std::string_view name,
                             std::string_view help = "");
/// What --framework says, where nothing else is.
void apply_framework(ModelOptions& model, PlanOptions& asked);
void add_console_options(CLI::App& app, ConsoleOptions& options, bool with_json = true);

}  // namespace partita::cli
