// SPDX-License-Identifier: Apache-2.0
//
// A reference interpreter of lowered programs: runs a task graph on small integer tensors, part by
// part, with real slices and sums, and knows nothing of how lowering made it.
//
// What an op computes follows from its rule alone, over the integers modulo a prime, so that every
// sum is exact and no wrong slice goes unnoticed:
//
//     result[free] = sum over reductions of  product (additive ops: sum) over operands of  g(operand)
//
// with g(x) = x for an operand in which the op is linear and x^2 for the others (a partial sum that
// passes through gives another number), the sum over a window where a dim has one, and operands that
// are applied once added at the first point of the reduction. The backward is the derivative.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "plan/problem.h"
#include "plan/strategy.h"
#include "plan/task_graph.h"

namespace partita::plan {

/// A tensor of which some elements are known.
struct SparseValue {
    std::vector<std::int64_t> data;  ///< by row-major index in the whole tensor
    std::vector<char> known;
    friend bool operator==(const SparseValue&, const SparseValue&) = default;
};

struct Interpretation {
    std::map<std::uint32_t, SparseValue> outputs;     ///< what the losses saw, by TensorId
    std::map<std::uint32_t, SparseValue> parameters;  ///< after the update, by TensorId
};

/// Runs the tasks in that order. Throws std::logic_error, naming the task, when a task needs what
/// nobody gave it, or when replicas differ.
Interpretation interpret(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks,
                         const std::vector<TaskId>& order);

}  // namespace partita::plan
