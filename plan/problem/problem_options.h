// SPDX-License-Identifier: Apache-2.0
//
// What the user says of a problem, beside its graph, machine and costs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "graph/op_graph.h"
#include "graph/operators/soap.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

enum class Mode : std::uint8_t { inference, training };
enum class Objective : std::uint8_t { latency, throughput, step_time };
std::string_view name_of(Mode mode);
std::string_view name_of(Objective objective);

/// What the user fixed (--fix, --memory-limit) and what a workload file demands.
struct Constraints {
    /// Per op the devices it may use, sorted; empty vector = any. May be shorter than the graph.
    std::vector<std::vector<int>> allowed;
    /// Ops that share one device, e.g. a colour class of a workload.
    std::vector<std::vector<graph::OpId>> together;
    std::optional<Bytes> memory_limit;      ///< per device, if tighter than the machine's
    bool whole_ops = false;                 ///< no op may be split (--dims O)
    std::vector<graph::SoapClass> unsplit;  ///< factors of these classes stay whole (--dims)
    int most_micro_batches = 0;  ///< the search may choose up to so many; 0: as many as the policy
    bool free_schedule = false;  ///< the search may choose the schedule
};

/// Micro-batches that a search may choose where nobody names a number: enough that a pipeline of
/// four stages waits for a fifth of its work at most. Each doubling doubles the tasks of a plan,
/// and the time that a proposal takes.
inline constexpr int kMostChosenMicroBatches = 16;
/// On more devices than these, whose pipelines are longer, as many as devices up to that.
inline constexpr int kDevicesOfShortPipelines = 64;
inline constexpr int kMostChosenOnManyDevices = 256;
constexpr int most_chosen_micro_batches(int devices) {
    return devices <= kDevicesOfShortPipelines ? kMostChosenMicroBatches
                                               : std::min(devices, kMostChosenOnManyDevices);
}

struct ProblemOptions {
    Mode mode = Mode::inference;
    Objective objective = Objective::latency;
    Policy policy;
    Constraints constraints;
    /// Per Input op, in order of id, the dim that carries the batch, or -1; empty: dim 0 of each.
    std::vector<int> input_sample_dims;
};

}  // namespace partita::plan
