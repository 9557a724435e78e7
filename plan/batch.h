// SPDX-License-Identifier: Apache-2.0
//
// Micro-batches: the batch of an iteration in parts, one after the other. An op of a micro-batch is
// the op with fewer positions of those factors that carry the batch; an op that no input reaches
// runs once for all of them. Source: RULES.md 3, 15, 16.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/operators/part.h"
#include "plan/problem.h"

namespace partita::plan {

/// The positions of every factor that the op covers in one of `micro_batches`.
graph::Box micro_batch_box(const Problem& problem, graph::OpId op, int micro_batches, int index);

/// Samples of the batch that all batched ops share; 0: nothing is batched.
std::int64_t batch_extent(const Problem& problem);

/// Why the batch cannot be cut into that many parts: too small, or an op that mixes samples. One
/// sentence that names the op.
std::optional<std::string> find_batch_fault(const Problem& problem, int micro_batches);

}  // namespace partita::plan
