// SPDX-License-Identifier: Apache-2.0
//
// The hosts of an incremental timeline: until when each has launched what its device has started
// (Task::launch, plan/tasks/task_graph.h), in the accepted timeline before any position and in the
// simulation now.
//
//     launched   by a host: the sum of all its launches so far. A task starts then at the earliest
//     slack      of a task in the accepted timeline: from when its host has launched it, and could
//                launch the next one, to its start. Where none is negative from a position on, no
//                task waits for the host there
//
// Hosts count launches from the first on, so they are not later where the timeline is. It can be
// followed, some time later, where hosts are as much later, or where no task waits for them either
// way (follows()).
//
// Cost: of a restart or an attempt to splice kStride positions; of accepting, what the timeline
// costs.
// Threads: one object per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/incremental/slot_graph.h"

namespace partita::plan {

class HostLaunches {
public:
    explicit HostLaunches(const SlotGraph& graph) : graph_(graph) {}

    /// Does any launch take time? Everything below is for then only.
    [[nodiscard]] bool any() const { return graph_.host_count() > 0; }

    // The accepted timeline.

    /// It has so many tasks; those from a position on are others.
    void resize(std::size_t size) { launches_.resize(size); }
    void put(std::size_t position, std::int32_t launch) { launches_[position] = launch; }
    /// After the last put(); all by position.
    void keep(std::size_t from, std::span<const std::int64_t> starts,
              std::span<const std::int32_t> resource_sets);

    // The simulation.

    /// From the beginning, where nothing differs yet.
    void begin() { offsets_.assign(graph_.host_count(), 0); }
    /// Hosts are where the accepted timeline has them at a position, but for what differed before.
    void restart(std::size_t position, std::span<const std::int32_t> resource_sets);
    /// A task starts. Afterwards launched() of its hosts is that much later.
    void launch(const SlotGraph::Node& node);
    [[nodiscard]] std::int64_t launched(std::size_t device) const { return launched_[device]; }
    /// Does the accepted timeline go on from a position, where it is at `old_now`, as far as hosts
    /// are concerned? What differs is remembered for the restart after.
    bool follows(std::size_t position, std::int64_t old_now, std::int64_t now,
                 std::span<const std::int32_t> resource_sets);

private:
    static constexpr std::size_t kStride = 32;  ///< positions between checkpoints

    void find_before(std::size_t position, std::span<const std::int32_t> resource_sets);

    const SlotGraph& graph_;
    std::vector<std::int32_t> launches_;  ///< per position
    // At positions 0, kStride, ..., per host.
    std::vector<std::int64_t> before_;  ///< launched before
    std::vector<std::int64_t> slack_;   ///< the least until the next such position
    std::vector<std::int64_t> least_;   ///< the least until the end

    std::vector<std::int64_t> launched_;  ///< per host: now
    std::vector<std::int64_t> offsets_;   ///< per host: more than the accepted timeline has
    std::vector<std::int64_t> found_;     ///< per host: of find_before()
};

}  // namespace partita::plan
