// SPDX-License-Identifier: Apache-2.0
//
// plan.json: strategy, order, digests, predictions and provenance; what `plan` writes and `execute`
// reads. Canonical: stable key order, integers, one op per line, so that two plans diff well, and
// the same plan is the same bytes. No wall-clock times, no paths of the host.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/machine/machine.h"
#include "plan/evaluation/evaluator.h"
#include "plan/evaluation/priced.h"
#include "plan/lowering/planned_collectives.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// An axis by its name (axis.h): what a name says depends on the op's rule, and a plan is read
/// without its model.
struct PlannedAxis {
    std::string factor;
    int degree = 1;
    friend bool operator==(const PlannedAxis&, const PlannedAxis&) = default;
};

/// An OpConfig.
struct PlannedConfig {
    std::vector<PlannedAxis> degrees;
    DeviceSet devices;
    friend bool operator==(const PlannedConfig&, const PlannedConfig&) = default;
};

/// An UpdateConfig.
struct PlannedUpdate {
    PlannedConfig config;
    bool accumulate_locally = false;
    bool refetch = false;
    friend bool operator==(const PlannedUpdate&, const PlannedUpdate&) = default;
};

struct PlannedOp {
    std::string name;
    std::string type;
    PlannedConfig config;
    PlannedUpdate update;
    Recompute recompute = Recompute::none;
    friend bool operator==(const PlannedOp&, const PlannedOp&) = default;
};

/// More are refused (Plan::attention_blocks).
inline constexpr int kMostAttentionBlocks = 4'096;

struct Plan {
    std::string source = "plan";  ///< the file it was read from, as errors name it; not written
    // model
    std::string model_file;    ///< file name without folder
    std::string model_digest;  ///< "sha256:..."
    std::map<std::string, std::int64_t> bindings;
    std::map<std::string, graph::Shape> shapes;  ///< --shape; absent from the file when empty
    bool unroll = false;
    std::optional<graph::DType> precision;       ///< --precision; absent from the file when empty
    std::optional<graph::ProductType> products;  ///< of --precision; the same
    std::vector<std::string> untie;              ///< --untie; absent from the file when empty
    std::vector<std::string> fuse;               ///< --fuse; the same
    bool fused_attention = false;                ///< --attention fused; absent when false
    int attention_blocks = 1;                    ///< --attention blocks=N; of fused attention
    bool float32_gradients = false;              ///< --precision ...,grads=fp32; absent when false
    // machine, embedded whole
    std::optional<cost::Machine> machine;  ///< never empty in a plan that was read
    std::string machine_digest;
    Mode mode = Mode::inference;
    Objective objective = Objective::latency;
    Policy policy;
    std::vector<PlannedOp> ops;  ///< in order of OpId
    /// The digest is that of a folded graph (Priced::tasks), whose tasks are not listed: strategy,
    /// prices and scheduler say what they are.
    bool folded = false;
    std::vector<PlannedCollective> collectives;  ///< all, in order of task; none if folded
    std::string task_graph_digest;
    std::vector<TaskId> commit_order;  ///< empty if folded, and for workload files
    // prediction
    Time value;
    std::optional<Time> lower_bound;
    std::vector<DeviceUse> devices;
    // costs
    std::string costs_digest;
    std::vector<std::string> cost_sources;
    // search
    std::string searcher;
    std::string scheduler;
    std::uint64_t seed = 0;
    std::int64_t evaluations = 0;
};

/// What a search leaves to be written down.
struct Provenance {
    std::string searcher;
    Scheduler scheduler = Scheduler::pct;
    std::uint64_t seed = 0;
    std::int64_t evaluations = 0;
    std::optional<Time> lower_bound;
};

/// The plan of a strategy: digests, order and predictions are computed here. The caller adds what
/// only it knows: model_file, bindings, shapes, unroll, precision, products,
/// untie, fuse, fused_attention, attention_blocks, float32_gradients.
Plan make_plan(const Problem& problem, const Strategy& strategy, const Provenance& provenance);
/// The same of what is priced already, by provenance.scheduler.
Plan make_plan(const Problem& problem, const Strategy& strategy, const Provenance& provenance,
               const Priced& priced);

std::string to_json(const Plan& plan);

/// Strict: unknown version, missing field or unknown key throws InputError naming `context` and
/// field. Whether the plan fits a model is verify()'s matter.
Plan parse_plan(std::string_view json, const std::string& context);
Plan read_plan(const std::filesystem::path& file);

/// The tasks of a plan at the prices of this problem, whatever they are. `strategy`: strategy_of()
/// it. Not of a plan that is folded.
TaskGraph lower_as_planned(const Problem& problem, const Strategy& strategy, const Plan& plan);

/// The strategy of a plan for this problem's graph. Throws InputError when an op is missing,
/// unknown, of another type, or has no axis of such a name, and when the strategy is illegal.
Strategy strategy_of(const Plan& plan, const Problem& problem);

}  // namespace partita::plan
