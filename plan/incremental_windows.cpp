// SPDX-License-Identifier: Apache-2.0
//
// What of an accepted timeline a change concerns, and where it can be followed.
#include <algorithm>
#include <utility>

#include "plan/incremental_timeline.h"

namespace partita::plan {

/// Which times of the accepted timeline matter to the changed tasks.
void IncrementalTimeline::find_windows() {
    const std::span<const Slot> changed = graph_.changed();
    windows_.assign(changed.size(), {});
    relevant_.clear();
    changed_positions_.clear();
    for (std::size_t i = 0; i < changed.size(); ++i) {
        Mark& mark = marks_[at(changed[i])];
        mark.changed = static_cast<std::int32_t>(i);
        if (mark.position < 0) continue;
        changed_positions_.push_back(mark.position);
        windows_[i].old_start = starts_[at(mark.position)];
        relevant_.push_back(windows_[i].old_start);
    }
    std::sort(changed_positions_.begin(), changed_positions_.end());
    for (std::size_t i = 0; i < changed.size(); ++i) {
        if (!graph_.has(changed[i])) continue;
        if (order_.empty()) windows_[i].relevant = 0;
        relevant_.push_back(relevant_of(i));
    }
    std::sort(relevant_.begin(), relevant_.end());
    relevant_.erase(std::unique(relevant_.begin(), relevant_.end()), relevant_.end());
}

/// A task whose duration alone differs starts where it did, if nothing before differs.
bool IncrementalTimeline::only_lasts_longer(std::size_t index) const {
    const SlotGraph::Before& before = graph_.before(index);
    const SlotGraph::Node& now = graph_[graph_.changed()[index]];
    return before.lane == now.lane && before.key == now.key &&
           before.predecessors == now.predecessors;
}

/// When the new task can be ready, were nothing else different.
std::int64_t IncrementalTimeline::relevant_of(std::size_t index) {
    Window& window = windows_[index];
    if (window.relevant != kNever) return window.relevant;
    window.relevant = 0;  // ends the recursion should the change be cyclic; the replay finds that
    if (only_lasts_longer(index)) return window.relevant = window.old_start;
    std::int64_t latest = 0;
    for (const Slot p : graph_[graph_.changed()[index]].predecessors) {
        const std::int32_t changed = mark(p).changed;
        latest = std::max(latest, changed >= 0 ? relevant_of(at(changed)) : mark(p).end);
    }
    return windows_[index].relevant = latest;
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
    const auto target = std::lower_bound(relevant_.begin(), relevant_.end(), old_start);
    const bool last = target == relevant_.end();
    const std::int32_t end = last ? size() : position_at(*target);
    if (!last && end - position < kWorthAJump) {
        next_try_ = end;
        return Splice::no;
    }
    if (!windows_agree(old_start)) {
        next_try_ = position + 8;
        return Splice::no;
    }
    ++effort_.spliced;
    close_log();
    segments_.push_back({position, end, shift, false});
    if (last) {
        new_makespan_ = std::max(latest_end_, ends_after_[at(position)] + shift);
        return Splice::finished;
    }
    restart(*target, shift);
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

/// Have those changed tasks started, and ended, that concern what was before, and no others?
bool IncrementalTimeline::windows_agree(std::int64_t old_start) const {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const Slot slot = graph_.changed()[i];
        if (!graph_.has(slot)) continue;
        const Window& window = windows_[i];
        const bool started = window.has_started;
        if ((window.relevant < old_start) != started) return false;
        if (window.old_start != kNever && (window.old_start < old_start) != started) return false;
        if (!started && mark(slot).waits == 0) return false;
    }
    return true;
}

}  // namespace partita::plan
