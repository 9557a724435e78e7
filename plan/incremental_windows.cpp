// SPDX-License-Identifier: Apache-2.0
//
// What of an accepted timeline a change concerns, and where it can be followed.
#include <algorithm>
#include <utility>

#include "plan/incremental_timeline.h"

namespace partita::plan {

/// The first time of the accepted timeline that matters to a changed task; kNever: none does.
std::int64_t IncrementalTimeline::find_windows() {
    const std::span<const Slot> changed = graph_.changed();
    windows_.assign(changed.size(), {});
    changed_positions_.clear();
    for (std::size_t i = 0; i < changed.size(); ++i) {
        Mark& mark = marks_[at(changed[i])];
        mark.changed = static_cast<std::int32_t>(i);
        if (mark.position < 0) continue;
        changed_positions_.push_back(mark.position);
        windows_[i].old_start = starts_[at(mark.position)];
    }
    std::sort(changed_positions_.begin(), changed_positions_.end());
    std::int64_t first = kNever;
    for (std::size_t i = 0; i < changed.size(); ++i) {
        windows_[i].waits_alike = waits_alike(i);
        first = std::min(first, windows_[i].old_start);
        if (!graph_.has(changed[i]) || windows_[i].waits_alike) continue;
        std::int64_t ready = 0;
        for (const Slot p : graph_[changed[i]].predecessors) {
            ready = std::max(ready, mark(p).changed >= 0 ? kNever : mark(p).end);
        }
        first = std::min(first, ready);
    }
    return first;
}

/// A task whose duration alone differs matters when it starts: until then it waits, or not, as before.
bool IncrementalTimeline::waits_alike(std::size_t index) const {
    const SlotGraph::Before& before = graph_.before(index);
    const SlotGraph::Node& now = graph_[graph_.changed()[index]];
    return before.lane == now.lane && before.key == now.key &&
           before.predecessors == now.predecessors &&
           std::none_of(now.predecessors.begin(), now.predecessors.end(),
                        [&](Slot p) { return mark(p).changed >= 0; });
}

std::int32_t IncrementalTimeline::lane_before(Slot slot) const {
    const std::int32_t changed = mark(slot).changed;
    return changed >= 0 ? graph_.before(at(changed)).lane : graph_[slot].lane;
}

/// The first that starts then or later.
std::int32_t IncrementalTimeline::position_at(std::int64_t time) const {
    const auto position = std::lower_bound(starts_.begin(), starts_.end(), time);
    return static_cast<std::int32_t>(position - starts_.begin());
}

/// The tasks before a position of the accepted timeline that end after some time.
void IncrementalTimeline::find_running(std::int32_t position, std::int64_t time) {
    found_running_.clear();
    if (order_.empty()) return;
    const std::size_t resources = graph_.resource_count();
    const std::int32_t block = std::min(position, size() - 1) / kStride;
    const auto here = last_.begin() + static_cast<std::ptrdiff_t>(at(block) * resources);
    latest_.assign(here, here + static_cast<std::ptrdiff_t>(resources));
    for (std::int32_t i = block * kStride; i < position; ++i) {
        const Slot slot = order_[at(i)];
        if (mark(slot).end <= time) continue;
        for (const std::int32_t r : graph_.resources(lane_before(slot))) latest_[at(r)] = slot;
    }
    for (std::size_t r = 0; r < resources; ++r) {
        const Slot slot = latest_[r];
        if (slot < 0 || mark(slot).end <= time) continue;
        const auto first = graph_.resources(lane_before(slot))[0];
        if (at(first) == r) found_running_.push_back(slot);
    }
}

/// Follows the accepted timeline, where what has started and what runs is as it was there, all of it
/// equally later. Asked when something has ended and nothing has started since.
IncrementalTimeline::Splice IncrementalTimeline::try_splice() {
    const std::int32_t position = last_position_ + 1;
    if (position < next_try_ || position >= size() || !has_started_the_same(position)) {
        return Splice::no;
    }
    const std::int64_t old_start = starts_[at(position)];
    const std::int64_t shift = now_ - old_start;
    if (!runs_the_same(position, shift)) return Splice::no;
    const std::int64_t target = next_relevant(position);
    const std::int32_t end = target == kNever ? size() : position_at(target);
    if (target != kNever && end - position < kWorthAJump) {
        next_try_ = std::max(end, position + kPause);
        return Splice::no;
    }
    ++effort_.spliced;
    close_log();
    segments_.push_back({position, end, shift, false});
    if (target == kNever) {
        check_changed_started();
        new_makespan_ = std::max(latest_end_, ends_after_[at(position)] + shift);
        return Splice::finished;
    }
    restart(target, shift);
    return Splice::jumped;
}

/// Are the unchanged tasks that have started those before this position, which is unchanged too?
bool IncrementalTimeline::has_started_the_same(std::int32_t position) {
    while (passed_ < changed_positions_.size() && changed_positions_[passed_] < position) ++passed_;
    const bool is_changed =
        passed_ < changed_positions_.size() && changed_positions_[passed_] == position;
    const auto changed = static_cast<std::int32_t>(passed_ - settled_);
    return !is_changed && unchanged_ + changed == position - restart_position_;
}

/// As the tasks did that ran when the one at this position started, but for the shift.
bool IncrementalTimeline::runs_the_same(std::int32_t position, std::int64_t shift) {
    for (const Running& task : running_) {
        const Mark& of = mark(task.slot);
        if (of.changed >= 0 || of.end + shift != task.end) return false;
    }
    find_running(position, starts_[at(position)]);
    return found_running_.size() == running_.size();
}

/// Until when the accepted timeline can be followed from a position on, where only changed tasks are in
/// another state; kNever: to its end.
std::int64_t IncrementalTimeline::next_relevant(std::int32_t position) const {
    const std::int64_t now = starts_[at(position)];
    std::int64_t first = kNever;
    for (std::size_t i = 0; i < windows_.size() && first > now; ++i) {
        const Slot slot = graph_.changed()[i];
        const Window& window = windows_[i];
        const bool starts_later = window.old_start != kNever && window.old_start >= now;
        if (starts_later) first = std::min(first, window.old_start);
        if (!graph_.has(slot)) continue;
        if (!window.has_started && !(starts_later && window.waits_alike)) {
            first = std::min(first, ready_before(slot, now));
        }
        for (const Slot next : graph_.successors(slot)) {
            const Mark& of = mark(next);
            if (of.changed >= 0 || of.position < position) continue;
            if (!window.has_started) {
                first = std::min(first, starts_[at(of.position)]);
            } else if (starts_later) {  // it may be ready before it was
                first = std::min(first, ready_before(next, now));
            }
        }
    }
    return first;
}

/// When a task is ready, in times of the accepted timeline, which is as now; kNever: it waits for a changed
/// one.
std::int64_t IncrementalTimeline::ready_before(Slot slot, std::int64_t now) const {
    std::int64_t ready = now;
    for (const Slot p : graph_[slot].predecessors) {
        if (has_ended(p)) continue;
        if (mark(p).changed >= 0) return kNever;
        ready = std::max(ready, mark(p).end);
    }
    return ready;
}

}  // namespace partita::plan
