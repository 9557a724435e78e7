// SPDX-License-Identifier: Apache-2.0
//
// The simulation of an incremental timeline since its latest restart: the scheduling rule itself.
#include <algorithm>
#include <utility>

#include "plan/incremental_timeline.h"
#include "plan/min_heap.h"

namespace partita::plan {

/// Goes on from the old timeline right before the commit at `position`, `shift` later.
void IncrementalTimeline::restart(std::int32_t position, std::int64_t shift) {
    if (segments_.empty()) segments_.push_back({0, position, 0, false});
    ++epoch_;
    restart_position_ = position;
    restart_time_ = order_.empty() ? 0 : starts_[at(position)];
    now_ = restart_time_ + shift;
    clear_simulation();
    set_changed_ends();
    const auto before = std::lower_bound(old_changed_.begin(), old_changed_.end(), position);
    unchanged_committed_ = position - static_cast<std::int32_t>(before - old_changed_.begin());
    largest_position_ = position - 1;
    committed_ = at(unchanged_committed_);
    for (const Window& window : windows_) committed_ += window.restart != 0 ? 1 : 0;
    if (!order_.empty()) {
        latest_end_ = std::max(latest_end_, ends_before_[at(position)] + shift);
        restore(shift);
    }
    count_done();
    find_changed_ready();
}

void IncrementalTimeline::clear_simulation() {
    running_.clear();
    candidates_.clear();
    for (const std::int32_t lane : used_lanes_) {
        lanes_[at(lane)].ready.clear();
        lanes_[at(lane)].waits_for = -1;
        lanes_[at(lane)].woken_by = -1;
        lanes_[at(lane)].used = false;
    }
    used_lanes_.clear();
    for (const std::int32_t r : waited_for_) waiters_[at(r)].clear();
    waited_for_.clear();
    std::fill(busy_until_.begin(), busy_until_.end(), 0);
    std::fill(done_.begin(), done_.end(), 0);
}

/// What runs and what is ready, from the checkpoint before.
void IncrementalTimeline::restore(std::int64_t shift) {
    const Checkpoint& checkpoint = checkpoints_[at(restart_position_ / kStride)];
    done_ = checkpoint.done;
    for (const Slot slot : checkpoint.ready) {
        if (position(slot) >= restart_position_ && changed_index(slot) < 0) mark_ready(slot);
    }
    const auto pass = [&](Slot slot, std::int64_t end) {
        if (end > restart_time_) {
            occupy(slot, end + shift);
            return;
        }
        if (!graph_.has(slot)) return;
        for (const Slot next : graph_[slot].successors) {
            if (position(next) < restart_position_ || changed_index(next) >= 0) continue;
            if (marks_[at(next)].epoch == epoch_ || incomplete_predecessors(next) > 0) continue;
            mark_ready(next);
        }
    };
    for (const Running& task : checkpoint.running) pass(task.slot, task.end);
    for (std::int32_t i = restart_position_ / kStride * kStride; i < restart_position_; ++i) {
        const Slot slot = order_[at(i)];
        const std::int32_t changed = changed_index(slot);
        const std::int32_t lane =
            changed >= 0 ? graph_.before(at(changed)).lane : graph_[slot].lane;
        add_done(lane, ends_[at(i)] - starts_[at(i)]);
        pass(slot, ends_[at(i)]);
    }
}

void IncrementalTimeline::mark_ready(Slot slot) {
    marks_[at(slot)].epoch = epoch_;
    marks_[at(slot)].waiting = 0;
    add_ready(slot);
}

/// Takes old tasks out of what is done and puts new ones in.
void IncrementalTimeline::count_done() {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const SlotGraph::Before& before = graph_.before(i);
        const Window& window = windows_[i];
        if (window.position >= 0 && window.position < restart_position_) {
            add_done(before.lane, -before.duration);
        }
        const SlotGraph::Node& now = graph_[graph_.changed()[i]];
        if (window.restart != 0) add_done(now.lane, now.duration);
    }
}

void IncrementalTimeline::add_done(std::int32_t lane, std::int64_t duration) {
    for (const std::int32_t r : graph_.resources(lane)) done_[at(r)] += duration;
}

/// The checkpoint knows nothing of new tasks.
void IncrementalTimeline::find_changed_ready() {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const Slot slot = graph_.changed()[i];
        if (windows_[i].restart != 0 || !graph_.has(slot)) continue;
        if (incomplete_predecessors(slot) == 0) mark_ready(slot);
    }
}

std::int32_t IncrementalTimeline::incomplete_predecessors(Slot slot) const {
    const SlotGraph::Predecessors& all = graph_.predecessors(slot);
    return static_cast<std::int32_t>(
        std::count_if(all.begin(), all.end(), [&](Slot p) { return !is_complete_at_restart(p); }));
}

void IncrementalTimeline::add_ready(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    Lane& lane = lanes_[at(node.lane)];
    if (!lane.used) {
        lane.used = true;
        used_lanes_.push_back(node.lane);
    }
    push_min(lane.ready, Ready{node.key, slot});
    if (lane.ready.front().slot != slot) return;
    if (lane.waits_for < 0) {
        offer(node.lane);
    } else if (busy_until_[at(lane.waits_for)] <= now_) {
        wake(node.lane, lane.waits_for);  // it may go before the waiter that was woken
    }
}

void IncrementalTimeline::offer(std::int32_t lane) {
    push_min(candidates_, Ready{lanes_[at(lane)].ready.front().key, lane});
}

void IncrementalTimeline::occupy(Slot slot, std::int64_t end) {
    for (const std::int32_t r : graph_.resources(graph_[slot].lane)) busy_until_[at(r)] = end;
    add_running({end, slot});
    latest_end_ = std::max(latest_end_, end);
}

void IncrementalTimeline::add_running(Running task) {
    std::size_t i = running_.size();
    running_.push_back(task);
    for (; i > 0 && running_[i - 1].end < task.end; --i) running_[i] = running_[i - 1];
    running_[i] = task;
}

void IncrementalTimeline::complete_due() {
    while (!running_.empty() && running_.back().end <= now_) {
        const Slot slot = running_.back().slot;
        running_.pop_back();
        complete(slot);
    }
}

void IncrementalTimeline::complete(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    for (const std::int32_t r : graph_.resources(node.lane)) wake(r);
    for (const Slot next : node.successors) {
        Mark& mark = marks_[at(next)];
        if (mark.epoch != epoch_) {
            mark.epoch = epoch_;
            mark.waiting = incomplete_predecessors(next);
        }
        if (--mark.waiting == 0) add_ready(next);
    }
}

/// The ready task with the smallest key among those that can start now; -1: there is none. Lanes that
/// are blocked wait at the first of their resources that is busy.
Slot IncrementalTimeline::next_commit() {
    while (!candidates_.empty()) {
        const Ready candidate = candidates_.front();
        Lane& lane = lanes_[at(candidate.slot)];
        const bool stale =
            lane.waits_for >= 0 || lane.ready.empty() || lane.ready.front().key != candidate.key;
        if (stale) {
            pop_min(candidates_);
            continue;
        }
        const auto resources = graph_.resources(candidate.slot);
        const auto busy = std::find_if(resources.begin(), resources.end(),
                                       [&](std::int32_t r) { return busy_until_[at(r)] > now_; });
        if (busy == resources.end()) return lane.ready.front().slot;
        pop_min(candidates_);
        wait(candidate.slot, *busy);
    }
    return -1;
}

/// The resource is free: its first waiter may take it. The others need not know, unless that one waits
/// for something else.
void IncrementalTimeline::wake(std::int32_t resource) {
    std::vector<std::int32_t>& waiters = waiters_[at(resource)];
    if (waiters.empty()) return;
    const auto key = [&](std::int32_t lane) { return lanes_[at(lane)].ready.front().key; };
    const auto first =
        std::min_element(waiters.begin(), waiters.end(),
                         [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
    wake(*first, resource);
}

void IncrementalTimeline::wake(std::int32_t lane, std::int32_t resource) {
    std::vector<std::int32_t>& waiters = waiters_[at(resource)];
    *std::find(waiters.begin(), waiters.end(), lane) = waiters.back();
    waiters.pop_back();
    lanes_[at(lane)].waits_for = -1;
    lanes_[at(lane)].woken_by = resource;
    offer(lane);
}

void IncrementalTimeline::wait(std::int32_t lane, std::int32_t resource) {
    lanes_[at(lane)].waits_for = resource;
    if (waiters_[at(resource)].empty()) waited_for_.push_back(resource);
    waiters_[at(resource)].push_back(lane);
    const std::int32_t left = std::exchange(lanes_[at(lane)].woken_by, -1);
    if (left >= 0 && left != resource && busy_until_[at(left)] <= now_) wake(left);
}

/// Is there time for what is left to do on the resources of a lane that starts something now?
bool IncrementalTimeline::fits(std::int32_t lane) const {
    const auto resources = graph_.resources(lane);
    return std::all_of(resources.begin(), resources.end(), [&](std::int32_t r) {
        return now_ + graph_.loads()[at(r)] - done_[at(r)] <= limit_;
    });
}

/// The same for all resources, after a restart.
bool IncrementalTimeline::all_fit() const {
    for (std::size_t r = 0; r < done_.size(); ++r) {
        const std::int64_t left = graph_.loads()[r] - done_[r];
        if (std::max(now_, busy_until_[r]) + left > limit_) return false;
    }
    return true;
}

void IncrementalTimeline::commit(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    Lane& lane = lanes_[at(node.lane)];
    lane.woken_by = -1;
    pop_min(candidates_);
    pop_min(lane.ready);
    occupy(slot, now_ + node.duration);
    add_done(node.lane, node.duration);
    log_.push_back(slot);
    log_starts_.push_back(now_);
    ++effort_.simulated;
    ++committed_;
    const std::int32_t changed = changed_index(slot);
    if (changed >= 0) {
        windows_[at(changed)].restart = epoch_;
    } else {
        ++unchanged_committed_;
        largest_position_ = std::max(largest_position_, position(slot));
    }
    if (!lane.ready.empty()) offer(node.lane);
    if (node.duration == 0) complete_due();
}

}  // namespace partita::plan
