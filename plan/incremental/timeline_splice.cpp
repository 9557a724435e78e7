// SPDX-License-Identifier: Apache-2.0
//
// Where the accepted timeline can be followed again.
//
// Let the unchanged tasks that have started be those that had started there, and let those that run
// end as much later, no changed one among them. Then what comes is the same, as much later, until a
// changed task matters (next_relevant): one that starts there, one that is ready here, or what
// waits for either.
//
// Tried and not kept: tasks that end elsewhere where nothing that is ready waits for them or for
// their resources. Among mixed states something nearly always does.
#include <algorithm>

#include "plan/incremental/timeline.h"

namespace partita::plan {

/// Asked when something has ended and nothing has started since.
IncrementalTimeline::Splice IncrementalTimeline::try_splice() {
    const std::int32_t position = last_position_ + 1;
    if (position < next_try_ || position >= size() || !has_started_the_same(position)) {
        return Splice::no;
    }
    const std::int64_t old_start = starts_[at(position)];
    const std::int64_t shift = now_ - old_start;
    if (!runs_the_same(position, shift)) return Splice::no;
    if (hosts_.any() && !hosts_.follows(at(position), old_start, now_, resource_sets_)) {
        return Splice::no;
    }
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
    std::size_t tasks = 0;
    for (const Running& task : running_) {
        if (task.is_host()) continue;
        ++tasks;
        const Mark& of = mark(task.slot);
        if (of.is_changed() || ends_[at(of.position)] + shift != task.end) return false;
    }
    find_running(position, starts_[at(position)]);
    return found_running_.size() == tasks;
}

/// Until when the accepted timeline can be followed from a position on, where only changed tasks
/// are in another state; kNever: to its end.
std::int64_t IncrementalTimeline::next_relevant(std::int32_t position) const {
    const std::int64_t now = starts_[at(position)];
    std::int64_t first = kNever;
    for (std::size_t i = 0; i < windows_.size() && first > now; ++i) {
        const Slot slot = graph_.changed()[i];
        const Window& window = windows_[i];
        const bool starts_later = window.old_start && *window.old_start >= now;
        if (starts_later) first = std::min(first, *window.old_start);
        if (!graph_.has(slot)) continue;
        if (!window.has_started && !(starts_later && window.waits_alike)) {
            first = std::min(first, ready_before(slot, now));
        }
        for (const Slot next : graph_.successors(slot)) {
            const Mark& of = mark(next);
            if (of.is_changed() || of.position < position) continue;
            if (!window.has_started) {
                first = std::min(first, starts_[at(of.position)]);
            } else if (starts_later) {  // it may be ready before it was
                first = std::min(first, ready_before(next, now));
            }
        }
    }
    return first;
}

/// When a task is ready, in times of the accepted timeline, which is as now; kNever: it waits for a
/// changed one.
std::int64_t IncrementalTimeline::ready_before(Slot slot, std::int64_t now) const {
    std::int64_t ready = now;
    for (const Slot p : graph_[slot].predecessors) {
        if (has_ended(p)) continue;
        if (mark(p).is_changed()) return kNever;
        ready = std::max(ready, end_of(p));
    }
    return ready;
}

}  // namespace partita::plan
