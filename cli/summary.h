// SPDX-License-Identifier: Apache-2.0
//
// The parts that the summaries of several commands are made of: lines of label and text, tables of
// devices, counts of where costs came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cli/console.h"
#include "cli/load.h"
#include "cli/model_facts.h"
#include "plan/evaluation/evaluator.h"
#include "plan/evaluation/priced.h"
#include "plan/problem/price_errors.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"

namespace partita::cli {

/// "label       text\n", labels aligned; several lines of text stand below each other.
std::string fact_line(std::string_view label, std::string_view text);

/// "resnet50.onnx: 175 ops, 25.6 M parameters (97.5 MiB), 8.18 GFLOP" and how dims were bound.
std::string model_line(const LoadedModel& model, const ModelFacts& facts);
/// "dgx-a100: 8 devices (8 x NVIDIA A100-SXM4-80GB, 80 GiB)".
std::string machine_line(const cost::Machine& machine);
/// "step time of training with adam, loss mse".
std::string goal_line(const plan::Problem& problem);
/// With the buckets, the micro-batches and the schedule of a plan.
std::string goal_line(plan::Objective objective, plan::Mode mode, const plan::Policy& policy);
/// "2 ops not known: Foo (2). Not split, priced by the bytes they move."; "" when all are known.
std::string unsupported_line(const ModelFacts& facts);

/// Ops that run forward, per device.
std::vector<std::int64_t> ops_per_device(const plan::Problem& problem,
                                         const plan::Strategy& strategy);
/// Of the device that holds most.
Bytes most_memory(const plan::Evaluation& evaluation);
/// Lines that a summary has, however large the machine is; with --verbose there is no limit.
inline constexpr std::size_t kMostLines = 40;

/// Three parts, in as many lines: ops, busy time and memory of the devices that have any; what they
/// hold at their peak by kind, where that is known; their timeline, or load. Devices that agree share
/// a row, and of too many rows those are shown that do, or hold, most.
std::string devices_text(const plan::Problem& problem, const plan::Strategy& strategy,
                         const plan::Priced& priced, const Terminal& terminal,
                         std::size_t most_lines);
/// What is left of kMostLines below `head`.
std::size_t lines_below(const std::string& head, const Console& console);

/// By the source of their price: tasks where costs are measured, else ops that run forward.
plan::CostCounts count_costs(const Loaded& loaded, const plan::Strategy& strategy,
                             const plan::TaskGraph& tasks);
/// Each count with the name of its source.
std::vector<std::pair<std::string_view, std::int64_t>> named_counts(const plan::CostCounts& counts);
/// "412 measured, 31 interpolated, 7 analytic tasks (profile.sqlite 2026-11-22)", "9 ops analytic".
std::string costs_line(const Loaded& loaded, const plan::CostCounts& counts);

/// nullopt: no curve prices anything, or costs are measured.
std::optional<plan::PriceErrors> price_errors_of(const Loaded& loaded,
                                                 const plan::Strategy& strategy);
/// Of a plan of that value: "14.2 ms to 19.8 ms: curves price 93 % of the work, and are 12.5 % off on
/// kernels that they were not fitted to".
std::string accuracy_line(const plan::PriceErrors& errors, Time value);

/// Layer blocks by what they recompute.
struct RecomputedBlocks {
    std::int64_t blocks = 0;  ///< of which something can be recomputed
    std::int64_t selective = 0;
    std::int64_t full = 0;
};
RecomputedBlocks recomputed_blocks(const plan::Problem& problem, const plan::Strategy& strategy);
/// "in full 3, selective 9 of 12 layer blocks"; "" where nobody asked for it.
std::string recompute_line(const plan::Problem& problem, const plan::Strategy& strategy);

/// "float32; bfloat16 products are 16 times as fast there: --precision bf16"; "" where the machine
/// has nothing quicker for the matrix products of the model.
std::string precision_line(const plan::Problem& problem);

/// "12 as products around a softmax, which keep their scores; one op each: --attention fused"; "" of
/// none.
std::string attention_line(int products_as_attention);

/// The rules of all ops of a problem.
std::vector<graph::OpRule> rules_of(const plan::Problem& problem);

}  // namespace partita::cli
