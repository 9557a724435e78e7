// SPDX-License-Identifier: Apache-2.0
//
// A reference interpreter of lowered programs: runs a task graph on small integer tensors, part by
// part, with real slices and combinations, and knows nothing of how lowering made it. Ops compute
// what op_meaning.h says.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "tests/plan/layout/sparse_value.h"

namespace partita::plan {

struct InterpreterOptions {
    /// What operators mean, and losses that are sums: their gradient is 1 (op_meaning.h). Otherwise
    /// the gradient of an output is noise times what the loss saw.
    bool plain = false;
    /// The gradient of an output does not depend on what the loss saw.
    bool constant_loss_gradient = false;
    std::map<std::uint32_t, std::vector<std::int64_t>> sources;  ///< by TensorId; others: noise
};

struct Interpretation {
    std::map<std::uint32_t, SparseValue> outputs;     ///< what the losses saw, by TensorId
    std::map<std::uint32_t, SparseValue> parameters;  ///< minus their gradient, by TensorId
};

/// Runs the tasks in that order. Throws std::logic_error, naming the task, when a task needs what
/// nobody gave it, or when replicas differ.
Interpretation interpret(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks,
                         const std::vector<TaskId>& order, const InterpreterOptions& options = {});

/// Lowers, simulates and interprets.
Interpretation interpreted(const Problem& problem, const Strategy& strategy,
                           const InterpreterOptions& options = {});

/// What the interpreter takes a source's element to be where it is not given, and the gradient of
/// an output's element where it is constant.
std::int64_t noise_of_source(graph::TensorId t, std::size_t element);
std::int64_t noise_of_loss(graph::TensorId t, std::size_t element);

/// A task that overwrites what another one may not have read yet: a sum in place, or the update of
/// a parameter. nullopt: dependencies alone put every reader first.
std::optional<std::string> find_hasty_write(const Problem& problem, const TaskGraph& tasks);

}  // namespace partita::plan
