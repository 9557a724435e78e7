// SPDX-License-Identifier: Apache-2.0
//
// Evaluators turn a strategy into an objective.
//
//     timeline   simulates the lowered task graph: latency of an inference, or one training step
//     max-load   time per sample of a full pipeline: the load of the busiest device or channel.
//                With given costs, exactly the objective of REFERENCES 8: an accelerator's
//                computation and communication add, a CPU pays none
//     subgraph-latency
//                latency of a sample under given costs, where accelerators are called with subgraphs
//                (plan/evaluation/subgraph_latency.h)
//     additive   nothing overlaps: the sum over ops and over what is resharded between them
//                (additive.h). No objective asks for it; the searcher `elimination` is exact for it
//
// Evaluations compare lexicographically by (schedule kept, memory overflow, value): over memory is
// never traded for time.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

struct DeviceUse {
    Time busy;
    Bytes memory;  ///< peak
    friend bool operator==(const DeviceUse&, const DeviceUse&) = default;
};

struct Evaluation {
    bool keeps_schedule = true;  ///< false: no pipeline for its schedule, priced without it
    Bytes overflow;              ///< sum over devices of the bytes above capacity
    Time value;
    std::vector<DeviceUse> devices;
    std::int64_t tasks = 0;  ///< that were simulated; 0: none, or not said

    [[nodiscard]] bool feasible() const { return keeps_schedule && overflow == Bytes{0}; }
    [[nodiscard]] bool better_than(const Evaluation& other) const {
        if (keeps_schedule != other.keeps_schedule) return keeps_schedule;
        return overflow != other.overflow ? overflow < other.overflow : value < other.value;
    }
};

class Evaluator {
public:
    virtual ~Evaluator() = default;
    /// Not thread-safe: one object per thread.
    [[nodiscard]] virtual Evaluation evaluate(const Strategy& strategy) = 0;
    /// Tasks of the whole iteration, on all devices.
    [[nodiscard]] virtual std::int64_t task_count(const Strategy& strategy) = 0;
    /// The folded tasks of a strategy, if it is the best that was evaluated here; they are given away.
    [[nodiscard]] virtual std::optional<TaskGraph> take_folded(const Strategy& /*strategy*/) {
        return std::nullopt;
    }
};

/// Is the value the makespan of the simulated task graph? Not so for throughput, and under given
/// costs.
bool is_makespan(const Problem& problem);

/// Few devices are lowered more quickly than compared; fifo and msr look at the ids of tasks, which
/// folding changes (plan/folding/folding.h).
bool may_fold(const Problem& problem, Scheduler scheduler);
/// Does an evaluation look at some of the devices alone? Takes nearly as long as such an evaluation.
bool folds(const Problem& problem, const Strategy& strategy, Scheduler scheduler);

/// The evaluator for the problem's objective.
std::unique_ptr<Evaluator> make_evaluator(const Problem& problem, Scheduler scheduler);

/// What a simulated order means: makespan, busy times and peak memory of every device.
Evaluation evaluation_of(const Problem& problem, const TaskGraph& graph, const Timeline& timeline);

/// Why it is not feasible: what is wrong with its schedule, else which devices lack memory, "gpu0
/// needs 5.20 GiB (5583457485 bytes) and has 4.00 GiB (4294967296 bytes); ..."; "" if it is.
std::string why_infeasible(const Problem& problem, const Strategy& strategy,
                           const Evaluation& evaluation);

/// Overflow of a use against the problem's capacities.
Bytes memory_overflow(const Problem& problem, const std::vector<DeviceUse>& devices);

}  // namespace partita::plan
