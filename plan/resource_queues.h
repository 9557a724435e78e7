// SPDX-License-Identifier: Apache-2.0
//
// What occupies each resource from some moment on: tasks in the order in which they were placed there. The
// last ones can be taken back.
//
// Tasks may be placed in any order that respects their predecessors, without knowing whether that is the
// order of the scheduling rule (simulate.h). Whether it is can be asked task by task: the rule starts
// whatever is ready and smallest, so it has kept a task waiting only if at every moment in between one
// of its resources was occupied, by a task that began before that moment or by one with a smaller key.
// Timelines in which that holds for all tasks are the rule's: by induction over time, the first task that
// starts elsewhere would have been kept waiting for nothing.
//
// Every task takes time (SlotTask::duration > 0), so nothing that starts at a moment is ready only because
// of what else happens at that moment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/slot_graph.h"

namespace partita::plan {

class ResourceQueues {
public:
    /// A task on one of its resources.
    struct Entry {
        std::int64_t start = 0;
        std::int64_t end = 0;
        std::uint64_t key = 0;
        std::int64_t busy_since = 0;  ///< the resource has been, without a gap
        std::int32_t larger = -1;     ///< the latest entry before with a larger key
        Slot slot = -1;
    };

    explicit ResourceQueues(const SlotGraph& graph) : graph_(graph) {}

    /// Forgets all tasks. Per resource: until when something occupies it that began before `time`, and the
    /// durations of all tasks that are not placed.
    void restart(std::int64_t time, std::span<const std::int64_t> free,
                 std::span<const std::int64_t> rest);

    /// When a task of the lane can start that is placed now.
    [[nodiscard]] std::int64_t earliest(std::int32_t lane, std::int64_t ready) const {
        for (const std::int32_t r : graph_.resources(lane)) {
            ready = std::max(ready, resources_[static_cast<std::size_t>(r)].free);
        }
        return ready;
    }
    /// Can all tasks that are not placed be done by then, if one of this lane starts now?
    [[nodiscard]] bool leaves_time(std::int32_t lane, std::int64_t start,
                                   std::int64_t limit) const {
        const auto resources = graph_.resources(lane);
        return std::all_of(resources.begin(), resources.end(), [&](std::int32_t r) {
            return start + resources_[static_cast<std::size_t>(r)].rest <= limit;
        });
    }
    /// The same for all resources.
    [[nodiscard]] bool all_leave_time(std::int64_t now, std::int64_t limit) const;

    /// Has everything on the resources of the lane begun before?
    [[nodiscard]] bool all_began_before(std::int32_t lane, std::int64_t moment) const {
        const auto resources = graph_.resources(lane);
        return std::all_of(resources.begin(), resources.end(), [&](std::int32_t r) {
            const Queue& queue = queues_[static_cast<std::size_t>(r)];
            return queue.empty() || queue.back().start < moment;
        });
    }

    /// At earliest() or later.
    void place(Slot slot, std::int64_t start);
    /// Takes back what starts on a resource then or later. Tasks must not stay on others.
    void cut(std::int32_t resource, std::int64_t start);

    /// The first moment from `ready` on at which the rule would have started the task, as far as what is
    /// placed tells; `until`: none before.
    [[nodiscard]] std::int64_t blocked_until(Slot slot, std::int64_t ready,
                                             std::int64_t until) const;

    [[nodiscard]] std::size_t size() const { return queues_.size(); }
    /// What was placed on a resource since the restart, in order.
    [[nodiscard]] std::span<const Entry> operator[](std::size_t resource) const {
        return queues_[resource];
    }
    /// The largest end on any resource, what began before the restart included.
    [[nodiscard]] std::int64_t latest_end() const;

private:
    static constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

    struct Resource {
        std::int64_t free = 0;
        std::int64_t rest = 0;
    };
    using Queue = std::vector<Entry>;

    /// The latest entry, from this one back, with a key above; -1: none.
    [[nodiscard]] static std::int32_t larger_than(const Queue& queue, std::uint64_t key,
                                                  std::int32_t i) {
        while (i >= 0 && queue[static_cast<std::size_t>(i)].key < key) {
            i = queue[static_cast<std::size_t>(i)].larger;
        }
        return i;
    }
    [[nodiscard]] static std::int32_t entry_at(const Queue& queue, std::int64_t moment);
    [[nodiscard]] std::int64_t blocks_since(std::int32_t resource, std::uint64_t key,
                                            std::int64_t ready, std::int64_t moment) const;
    [[nodiscard]] std::int64_t blocks_until(std::int32_t resource, std::uint64_t key,
                                            std::int64_t moment) const;
    [[nodiscard]] bool is_blocked_from(std::int64_t ready, std::int64_t until,
                                       const SlotGraph::Node& node) const;

    const SlotGraph& graph_;
    std::int64_t time_ = 0;           ///< of the restart
    std::vector<std::int64_t> free_;  ///< per resource, at the restart
    std::vector<Resource> resources_;
    std::vector<Queue> queues_;  ///< per resource
};

}  // namespace partita::plan
