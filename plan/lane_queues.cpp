// SPDX-License-Identifier: Apache-2.0
#include "plan/lane_queues.h"

#include <algorithm>

namespace partita::plan {

void LaneQueues::forget(std::size_t lanes) {
    for (const Active& active : active_) queues_[static_cast<std::size_t>(active.lane)].clear();
    active_.clear();
    least_bound_ = kNever;
    queues_.resize(lanes);
}

void LaneQueues::add(std::int32_t lane, const Waiting& task) {
    std::vector<Waiting>& queue = queues_[static_cast<std::size_t>(lane)];
    if (queue.empty()) {
        active_.push_back({.bound = task.ready, .lane = lane});
        least_bound_ = std::min(least_bound_, task.ready);
    } else {
        const auto active = std::find_if(active_.begin(), active_.end(),
                                         [&](const Active& of) { return of.lane == lane; });
        active->bound = std::min(active->bound, task.ready);
        least_bound_ = std::min(least_bound_, active->bound);
    }
    const auto place =
        std::upper_bound(queue.begin(), queue.end(), task.key,
                         [](std::uint64_t key, const Waiting& other) { return key < other.key; });
    queue.insert(place, task);
}

void LaneQueues::remove(std::int32_t lane, Slot slot) {
    std::vector<Waiting>& queue = queues_[static_cast<std::size_t>(lane)];
    queue.erase(std::find_if(queue.begin(), queue.end(),
                             [&](const Waiting& task) { return task.slot == slot; }));
    if (!queue.empty()) return;
    const auto active = std::find_if(active_.begin(), active_.end(),
                                     [&](const Active& of) { return of.lane == lane; });
    *active = active_.back();
    active_.pop_back();
    find_least();
}

void LaneQueues::find_least() {
    least_bound_ = kNever;
    for (const Active& active : active_) least_bound_ = std::min(least_bound_, active.bound);
}

LaneQueues::First LaneQueues::first_of(std::int32_t lane, const ResourceQueues& queues) const {
    const std::int64_t free = queues.earliest(lane, kAlways);
    First first;
    for (const Waiting& task : queues_[static_cast<std::size_t>(lane)]) {
        if (task.ready <= free) return {free, &task};
        if (task.ready < first.start) first = {task.ready, &task};
    }
    return first;
}

std::optional<LaneQueues::Choice> LaneQueues::first_before(std::int64_t start, std::uint64_t key,
                                                           const ResourceQueues& queues) {
    if (active_.empty() || least_bound_ > start) return std::nullopt;
    First best{.start = start};
    const auto look_up = [&](Active& active) {
        const First first = first_of(active.lane, queues);
        active.bound = first.start;
        if (first.start > best.start || (first.start == best.start && first.task->key >= key)) {
            return;
        }
        best = first;
        key = first.task->key;
    };
    // The most promising lane first, so that few others need to be looked up.
    Active& least =
        *std::min_element(active_.begin(), active_.end(),
                          [](const Active& a, const Active& b) { return a.bound < b.bound; });
    look_up(least);
    least_bound_ = least.bound;
    for (Active& active : active_) {
        if (active.bound <= best.start && &active != &least) look_up(active);
        least_bound_ = std::min(least_bound_, active.bound);
    }
    if (best.task == nullptr) return std::nullopt;
    return Choice{best.start, best.task->ready, best.task->slot, best.task->is_sure};
}

}  // namespace partita::plan
