// SPDX-License-Identifier: Apache-2.0
//
// What the commands on PLAN and MODEL have in common.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "cli/load.h"
#include "cli/shared_options.h"
#include "plan/files/plan_file.h"

namespace partita::cli {

struct PlannedOptions {
    std::filesystem::path plan;
    ModelOptions model;
    std::string machine;  ///< "": the plan's
    cost::WhatIf what_if;
    PlanOptions asked;  ///< training and constraints, where the command has them
    bool ignore_digest = false;
};

/// What the model of a plan was read with, as options: "--bind batch=4 --attention fused"; "": none
/// but shapes.
std::string model_options_of(const plan::Plan& plan);

/// PLAN, MODEL, --machine, the options that bind dims, --ignore-digest.
void add_planned_options(CLI::App& app, PlannedOptions& options);

struct Planned {
    plan::Plan plan;
    std::unique_ptr<Loaded> loaded;
};

/// The plan and its problem. Dims are bound as in the plan unless the options bind them anew.
/// Throws MismatchError when the plan was made for another model, unless --ignore-digest.
Planned load_planned(const PlannedOptions& options, Console& console);

}  // namespace partita::cli
