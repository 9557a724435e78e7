// SPDX-License-Identifier: Apache-2.0
//
// Where the outputs of a model lie when an iteration has ended.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"

namespace partita::runtime {

struct OutputPiece {
    plan::BufferId buffer;
    graph::TensorId tensor;
    int device = 0;
};

/// `position`: of each task in commit order. Later pieces are right where they overlap.
std::vector<OutputPiece> output_pieces(const plan::Problem& problem, const plan::Strategy& strategy,
                                       const plan::TaskGraph& tasks,
                                       std::span<const std::int64_t> position);

}  // namespace partita::runtime
