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
#include "plan/problem/graph_facts.h"

namespace partita::plan {

/// Of an op; legality refuses more.
inline constexpr int kMostParts = 1 << 14;
/// Parts of an op in one direction and micro-batch that use one tensor: so many, so that references
/// to parts fit into 32 bits (tensor_tasks.h).
inline constexpr std::int64_t kMostBlocks = (std::int64_t{1} << 31) / kMostParts - 1;

/// The positions of every factor that the op covers in one of `micro_batches`.
graph::Box micro_batch_box(const GraphFacts& facts, graph::OpId op, int micro_batches, int index);

/// The first of `micro_batches` that has as many of the samples as that one.
int first_alike(std::int64_t samples, int micro_batches, int index);

/// May all that batched ops read, write and leave be named by the positions of the first
/// micro-batch of equal size? Not where a tensor that is the same in all is read in slices, such as
/// a constant with a value per sample.
bool may_share_regions(const GraphFacts& facts);

/// Samples of the batch that all batched ops share; 0: nothing is batched.
std::int64_t batch_extent(const GraphFacts& facts);

/// Why the batch cannot be cut into that many parts: too small, or an op that mixes samples. One
/// sentence that names the op.
std::optional<std::string> find_batch_fault(const GraphFacts& facts, int micro_batches);

}  // namespace partita::plan
