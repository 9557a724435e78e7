// SPDX-License-Identifier: Apache-2.0
//
// From the options to a Problem: reads the model (ONNX or workload), the machine and the
// constraints. Everything a Problem refers to lives in one Loaded, which stays where it is.
//
// Throws the importers' InputError and UsageError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/options.h"
#include "cost/machine.h"
#include "graph/op_graph.h"
#include "plan/problem.h"

namespace partita::cli {

/// A model file, read.
struct LoadedModel {
    std::filesystem::path file;
    graph::OpGraph graph;
    std::map<std::string, std::int64_t> bindings;  ///< of symbolic dims, --batch included
    std::map<std::string, graph::Shape> shapes;    ///< --shape and --inputs
    bool unroll = false;
    std::vector<int> input_sample_dims;  ///< per Input op the dim that carries the batch, or -1
    std::vector<std::string> notes;      ///< how --batch was applied, what was folded or inlined

    // Of a workload:
    std::optional<cost::Machine> machine;            ///< the one it was costed for
    std::vector<std::vector<graph::OpId>> together;  ///< its colour classes
    [[nodiscard]] bool is_workload() const { return machine.has_value(); }
};

LoadedModel load_model(const ModelOptions& options);

/// Does the name end in .json? Then load_model() reads a workload, else an ONNX model.
bool is_json(const std::filesystem::path& file);

/// Latency of inference, step time of training, throughput of workloads.
plan::Objective default_objective(plan::Mode mode, const LoadedModel& model);
/// Latency is of inference, step time of training. Throws UsageError.
void check_objective(plan::Objective objective, plan::Mode mode);

/// Model, machine and the problem they make.
struct Loaded {
    LoadedModel model;
    cost::Machine machine;
    std::optional<plan::Problem> problem;  ///< refers to the two above
};

/// For `plan` and `compare`. An empty `machine` means the default one.
std::unique_ptr<Loaded> load_problem(const ModelOptions& model, const std::string& machine,
                                     const GoalOptions& goal, Console& console);

/// Puts the parts in their place and makes the problem.
std::unique_ptr<Loaded> make_loaded(LoadedModel model, cost::Machine machine,
                                    plan::ProblemOptions options);

}  // namespace partita::cli
