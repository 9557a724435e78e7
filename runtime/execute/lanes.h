// SPDX-License-Identifier: Apache-2.0
//
// Where a worker's steps run. A CPU does them one after the other; a GPU has two queues (streams)
// that run beside each other, each in order:
//
//     compute         F(a)    F(b)                       and updates, packs, accumulations
//     communication        copy a    copy b              and collectives
//     of another GPU, compute        F(c)
//
// A step waits for the tasks before it. What lies in its own lane has ended by then; of each other
// lane the latest is enough, and nothing that an earlier step of its lane has waited for. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/tasks/task_graph.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

struct StepPlace {
    std::uint32_t worker = 0;
    std::uint32_t step = 0;  ///< of the worker's
    friend bool operator==(const StepPlace&, const StepPlace&) = default;
};

enum class Lane : std::uint8_t { compute, communication };
inline constexpr std::size_t kLanes = 2;

/// On a GPU.
Lane lane_of(plan::TaskKind kind);

struct LanedStep {
    Lane lane = Lane::compute;
    std::vector<StepPlace> awaits;  ///< steps of other lanes, of any worker
};

/// Per worker and step, as if all workers were on GPUs.
std::vector<std::vector<LanedStep>> plan_lanes(const Program& program,
                                               const plan::TaskGraph& tasks);

}  // namespace partita::runtime
