// SPDX-License-Identifier: Apache-2.0
//
// The pipeline in a strategy. Nobody declares stages: a stage is a set of devices that share ops,
// and the model passes the stages in the order of its data. Where it comes back to a stage, a
// second chunk begins.
//
//     ops         a    b    c    d    e    f         devices of a, b: {0, 1}; of c, d: {2}; ...
//     stage       0 ── 0 ── 1 ── 1 ── 0 ── 1
//     chunk       0    0    0    0    1    1
//     position    0    0    1    1    2    3         stage + stages * chunk
//
// Ops that do not depend on the batch run once and belong to no stage.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

struct Pipeline {
    int stages = 0;
    int chunks = 0;
    std::vector<std::int32_t> stage_of_device;  ///< -1: no op of a stage
    std::vector<std::int32_t> position;         ///< per op; -1: in no stage

    [[nodiscard]] bool has(graph::OpId op) const { return position[op.index()] >= 0; }
    [[nodiscard]] int stage(graph::OpId op) const { return position[op.index()] % stages; }
    [[nodiscard]] int chunk(graph::OpId op) const { return position[op.index()] / stages; }
};

/// Is the op in a stage? It depends on the problem alone.
bool is_staged(const Problem& problem, graph::OpId op);

/// The device of every part of an op, one at least; valid until the next call.
using DevicesOfOp = std::function<std::span<const std::int32_t>(graph::OpId)>;

/// Devices of every op must exist. Time: O(ops * devices of an op).
Pipeline pipeline_of(const Problem& problem, const DevicesOfOp& devices_of);
Pipeline pipeline_of(const Problem& problem, const Strategy& strategy);

/// Is that a pipeline for the schedule of the policy? Any is one for "none".
bool keeps_schedule(const Policy& policy, const Pipeline& pipeline);

/// What is chosen for an op's layer block (OpDecision::recompute).
using RecomputeOfOp = std::function<Recompute(graph::OpId)>;

/// A layer block of which one stage has several chunks, though these run again or read for their
/// backward what does: the later chunk's backward would need what the earlier one's makes, which
/// comes after it. Null: there is none.
const LayerBlock* find_recomputed_in_chunks(const Problem& problem, const Pipeline& pipeline,
                                            const RecomputeOfOp& recompute_of);

/// Why the strategy is no pipeline for its schedule, naming an op; nothing when it is one. Any
/// strategy is one for "none".
std::optional<std::string> find_schedule_fault(const Problem& problem, const Strategy& strategy);

}  // namespace partita::plan
