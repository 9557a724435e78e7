// SPDX-License-Identifier: Apache-2.0
#include "plan/resource_queues.h"

namespace partita::plan {

void ResourceQueues::restart(std::int64_t time, std::span<const std::int64_t> free,
                             std::span<const std::int64_t> rest) {
    time_ = time;
    free_.assign(free.begin(), free.end());
    resources_.resize(free.size());
    queues_.resize(free.size());
    for (std::size_t r = 0; r < free.size(); ++r) {
        resources_[r] = {.free = free[r], .rest = rest[r]};
        queues_[r].clear();
    }
}

bool ResourceQueues::all_leave_time(std::int64_t now, std::int64_t limit) const {
    return std::all_of(resources_.begin(), resources_.end(),
                       [&](const Resource& r) { return std::max(now, r.free) + r.rest <= limit; });
}

std::int64_t ResourceQueues::latest_end() const {
    std::int64_t latest = 0;
    for (const Resource& resource : resources_) latest = std::max(latest, resource.free);
    return latest;
}

void ResourceQueues::place(Slot slot, std::int64_t start) {
    const SlotGraph::Node& node = graph_[slot];
    for (const std::int32_t r : graph_.resources(node.lane)) {
        Resource& resource = resources_[static_cast<std::size_t>(r)];
        Queue& queue = queues_[static_cast<std::size_t>(r)];
        const bool follows = start == resource.free;
        const std::int64_t since = !follows        ? start
                                   : queue.empty() ? kAlways
                                                   : queue.back().busy_since;
        const auto last = static_cast<std::int32_t>(queue.size()) - 1;
        queue.push_back({.start = start,
                         .end = start + node.duration,
                         .key = node.key,
                         .busy_since = since,
                         .larger = larger_than(queue, node.key, last),
                         .slot = slot});
        resource.free = start + node.duration;
        resource.rest -= node.duration;
    }
}

void ResourceQueues::cut(std::int32_t r, std::int64_t start) {
    Resource& resource = resources_[static_cast<std::size_t>(r)];
    Queue& queue = queues_[static_cast<std::size_t>(r)];
    while (!queue.empty() && queue.back().start >= start) {
        resource.rest += queue.back().end - queue.back().start;
        queue.pop_back();
    }
    resource.free = queue.empty() ? free_[static_cast<std::size_t>(r)] : queue.back().end;
}

/// The latest that began then or before; -1: none since the restart. Mostly it is one of the last.
std::int32_t ResourceQueues::entry_at(const Queue& queue, std::int64_t moment) {
    constexpr std::ptrdiff_t kNear = 8;
    const auto size = static_cast<std::ptrdiff_t>(queue.size());
    const std::ptrdiff_t far = std::max<std::ptrdiff_t>(0, size - kNear);
    std::ptrdiff_t i = size - 1;
    while (i >= far && queue[static_cast<std::size_t>(i)].start > moment) --i;
    if (i >= far) return static_cast<std::int32_t>(i);
    const auto after =
        std::upper_bound(queue.begin(), queue.begin() + far, moment,
                         [](std::int64_t t, const Entry& entry) { return t < entry.start; });
    return static_cast<std::int32_t>(after - queue.begin()) - 1;
}

/// The first moment since which the resource blocks a task up to `moment`, that included; kNever: not then.
/// A task with a larger key blocks from the moment after its start on: at its start it is the other one
/// that would have gone first.
std::int64_t ResourceQueues::blocks_since(std::int32_t r, std::uint64_t key, std::int64_t ready,
                                          std::int64_t moment) const {
    const Queue& queue = queues_[static_cast<std::size_t>(r)];
    const std::int32_t i = entry_at(queue, moment);
    if (i < 0) return moment < free_[static_cast<std::size_t>(r)] ? kAlways : kNever;
    const Entry& entry = queue[static_cast<std::size_t>(i)];
    if (entry.end <= moment) return kNever;
    const std::int32_t larger = larger_than(queue, key, i);
    if (larger < 0) return entry.busy_since;
    const std::int64_t start = queue[static_cast<std::size_t>(larger)].start;
    if (start < ready) return entry.busy_since;
    return start == moment ? kNever : std::max(entry.busy_since, start + 1);
}

/// Until when it does, from `moment` on; `moment`: it does not.
std::int64_t ResourceQueues::blocks_until(std::int32_t r, std::uint64_t key,
                                          std::int64_t moment) const {
    const Queue& queue = queues_[static_cast<std::size_t>(r)];
    const std::int32_t i = entry_at(queue, moment);
    if (i < 0) return std::max(moment, free_[static_cast<std::size_t>(r)]);
    const Entry& entry = queue[static_cast<std::size_t>(i)];
    if (entry.start == moment && entry.key > key) return moment;
    return std::max(moment, entry.end);
}

/// At every moment: looked at from the last one back.
bool ResourceQueues::is_blocked_from(std::int64_t ready, std::int64_t until,
                                     const SlotGraph::Node& node) const {
    const auto resources = graph_.resources(node.lane);
    for (std::int64_t moment = until - 1; moment >= ready;) {
        std::int64_t since = kNever;
        for (const std::int32_t r : resources) {
            since = std::min(since, blocks_since(r, node.key, ready, moment));
            if (since <= ready) return true;
        }
        if (since == kNever) return false;
        moment = since - 1;
    }
    return true;
}

std::int64_t ResourceQueues::blocked_until(Slot slot, std::int64_t ready,
                                           std::int64_t until) const {
    const SlotGraph::Node& node = graph_[slot];
    std::int64_t moment = std::max(ready, time_);
    if (moment >= until || is_blocked_from(moment, until, node)) return until;
    while (moment < until) {
        std::int64_t next = moment;
        for (const std::int32_t r : graph_.resources(node.lane)) {
            next = std::max(next, blocks_until(r, node.key, moment));
        }
        if (next == moment) return moment;
        moment = next;
    }
    return until;
}

}  // namespace partita::plan
