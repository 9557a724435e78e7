// SPDX-License-Identifier: Apache-2.0
//
// From the options to a Problem: reads the model (ONNX or workload), the machine and the
// constraints. Everything a Problem refers to lives in one Loaded, which stays where it is.
//
// Throws the importers' InputError and UsageError.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "api/costs.h"
#include "api/loaded_model.h"
#include "cli/console.h"
#include "cli/shared_options.h"
#include "cost/machine/machine.h"
#include "plan/problem/problem.h"

namespace partita::cli {

using api::is_json;
using api::LoadedModel;

/// Model, machine and the problem they make.
struct Loaded {
    LoadedModel model;
    cost::Machine machine;
    api::Costs costs;
    std::optional<plan::Problem> problem;  ///< refers to model and machine
};

LoadedModel load_model(const ModelOptions& options);

/// For `plan` and `compare`. An empty `machine` means the default one.
std::unique_ptr<Loaded> load_problem(const ModelOptions& model, const std::string& machine,
                                     const cost::WhatIf& changes, const PlanOptions& asked,
                                     Console& console);

/// Puts the parts in their place and makes the problem. `profile`: "" for none.
std::unique_ptr<Loaded> make_loaded(LoadedModel model, cost::Machine machine,
                                    const std::filesystem::path& profile,
                                    plan::ProblemOptions options, Console& console);

}  // namespace partita::cli
