// SPDX-License-Identifier: Apache-2.0
//
// What of an accepted timeline a change concerns, and where it can be followed.
#include <algorithm>
#include <utility>

#include "plan/incremental_timeline.h"

namespace partita::plan {

/// Which times of the accepted timeline matter to the changed tasks.
void IncrementalTimeline::find_windows() {
    ++evaluation_;
    const std::span<const Slot> changed = graph_.changed();
    windows_.assign(changed.size(), {});
    relevant_.clear();
    for (std::size_t i = 0; i < changed.size(); ++i) {
        changed_[at(changed[i])] = static_cast<std::int32_t>(i);
        Mark& mark = marks_[at(changed[i])];
        mark.evaluation = evaluation_;
        mark.new_end = kNever;
        mark.waits = -1;
        if (graph_.before(i).lane < 0) continue;
        windows_[i].old_start = starts_[at(mark.position)];
        relevant_.push_back(windows_[i].old_start);
    }
    for (std::size_t i = 0; i < changed.size(); ++i) {
        if (graph_.has(changed[i])) relevant_.push_back(relevant_of(i));
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
        const std::int32_t changed = changed_index(p);
        latest = std::max(latest, changed >= 0 ? relevant_of(at(changed)) : mark(p).end);
    }
    return windows_[index].relevant = latest;
}

/// Goes on from the accepted timeline at a time of it, `shift` later. What began before is settled.
void IncrementalTimeline::restart(std::int64_t relevant, std::int64_t shift) {
    const auto position = std::lower_bound(starts_.begin(), starts_.end(), relevant);
    restart_position_ = static_cast<std::int32_t>(position - starts_.begin());
    shift_ = shift;
    time_ = relevant + shift;
    cursor_ = restart_position_;
    next_try_ = cursor_;
    looked_ahead_at_ = -1;
    early_.clear();
    waiting_.forget(graph_.lanes());
    for (const Slot slot : put_off_) {  // what is followed places them
        if (mark(slot).new_end == kNever) marks_[at(slot)].evaluation = 0;
    }
    put_off_.clear();
    for (const Slot slot : graph_.changed()) marks_[at(slot)].evaluation = evaluation_;
    behind_ = 0;
    by_time_ = 0;
    by_time_next_ = kByTime;
    in_run_ = false;
    run_shift_ = shift;
    const std::int64_t latest = cursor_ < size() ? ends_before_[at(cursor_)] : makespan_;
    settled_end_ = latest_end_ = std::max(latest_end_, latest + shift);
    find_free_and_rest();
    queues_.restart(time_, scratch_free_, scratch_rest_);
    put_off_changed();
}

/// At the restart, from the checkpoint before.
void IncrementalTimeline::find_free_and_rest() {
    const std::size_t resources = graph_.resource_count();
    const std::int32_t block = std::min(cursor_, size() - 1) / kStride;
    const auto here = static_cast<std::ptrdiff_t>(at(block) * resources);
    scratch_free_.assign(free_.begin() + here,
                         free_.begin() + here + static_cast<std::ptrdiff_t>(resources));
    scratch_rest_.assign(graph_.loads().begin(), graph_.loads().end());
    for (std::size_t r = 0; r < resources; ++r) {
        scratch_rest_[r] -= done_[at(block) * resources + r];
    }
    const auto add_rest = [&](std::int32_t lane, std::int64_t duration) {
        for (const std::int32_t r : graph_.resources(lane)) scratch_rest_[at(r)] += duration;
    };
    for (std::int32_t i = block * kStride; i < cursor_; ++i) {
        const Slot slot = order_[at(i)];
        const std::int32_t changed = changed_index(slot);
        const std::int32_t lane =
            changed >= 0 ? graph_.before(at(changed)).lane : graph_[slot].lane;
        const std::int64_t end = mark(slot).end;
        for (const std::int32_t r : graph_.resources(lane)) scratch_free_[at(r)] = end;
        add_rest(lane, starts_[at(i)] - end);
    }
    for (std::int64_t& free : scratch_free_) free += shift_;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const Slot slot = graph_.changed()[i];
        const SlotGraph::Before& before = graph_.before(i);
        if (before.lane >= 0 && mark(slot).position < cursor_)
            add_rest(before.lane, before.duration);
        const bool is_placed = mark(slot).new_end != kNever;
        if (is_placed) add_rest(graph_[slot].lane, -graph_[slot].duration);
    }
}

/// New tasks wait until what they need is placed, and until their time has come.
void IncrementalTimeline::put_off_changed() {
    for (const Slot slot : graph_.changed()) {
        if (graph_.has(slot) && mark(slot).new_end == kNever) put_off(slot);
    }
}

/// Follows the accepted timeline from the cursor on, whose task would start then, if all that matters
/// from there on has the same distance from it.
IncrementalTimeline::Splice IncrementalTimeline::try_splice(std::int64_t start) {
    const std::int64_t old_start = starts_[at(cursor_)];
    const bool same_distance = in_run_ && start - old_start == run_shift_ &&
                               start >= run_new_end_ && old_start >= run_old_end_;
    if (!same_distance || cursor_ < next_try_ || behind_ > 0) return Splice::no;
    const auto target = std::lower_bound(relevant_.begin(), relevant_.end(), old_start);
    const bool last = target == relevant_.end();
    std::int32_t end = size();
    if (!last) {
        const auto position = std::lower_bound(starts_.begin(), starts_.end(), *target);
        end = static_cast<std::int32_t>(position - starts_.begin());
        if (end - cursor_ < kWorthAJump) {
            next_try_ = end;
            return Splice::no;
        }
    }
    next_try_ = cursor_ + 8;
    if (!windows_agree()) return Splice::no;
    const auto violation = find_violation(std::max(run_new_end_, run_old_end_ + run_shift_));
    if (violation) {
        take_back(*violation);
        return Splice::taken_back;
    }
    ++effort_.spliced;
    latest_end_ = std::max(settled_end_, queues_.latest_end());
    close_log();
    segments_.push_back({cursor_, end, run_shift_, false});
    if (last) {
        new_makespan_ =
            std::max({settled_end_, queues_.latest_end(), ends_after_[at(cursor_)] + run_shift_});
        return Splice::finished;
    }
    restart(*target, run_shift_);
    return Splice::jumped;
}

/// Of the changed tasks those that concern what was before are placed, and nothing else that came later;
/// nothing that was put off could start.
bool IncrementalTimeline::windows_agree() const {
    const std::int64_t old_start = starts_[at(cursor_)];
    const bool is_early = std::any_of(early_.begin(), early_.end(), [&](Slot slot) {
        return mark(slot).position >= cursor_ && mark(slot).new_end != kNever;
    });
    if (is_early) return false;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const Slot slot = graph_.changed()[i];
        if (!graph_.has(slot)) continue;
        const Window& window = windows_[i];
        const bool is_placed = mark(slot).new_end != kNever;
        if ((window.relevant < old_start) != is_placed) return false;
        if (window.old_start != kNever && (window.old_start < old_start) != is_placed) return false;
        if (!is_placed && mark(slot).waits == 0) return false;
    }
    return true;
}

/// All tasks that have what they need and are not placed, and others, some more than once, but for those that
/// wait in lanes. Ends when `visit` returns true.
template <class Visit>
void IncrementalTimeline::for_each_ready(const Visit& visit) {
    std::erase_if(early_, [&](Slot slot) {
        return mark(slot).position < cursor_ || mark(slot).new_end == kNever;
    });
    for (const Slot early : early_) {
        for (const Slot next : graph_.successors(early)) {
            if (visit(next)) return;
        }
    }
    for (std::int32_t block = cursor_ / kStride; block * kStride < size(); ++block) {
        if (least_ready_at_[at(block)] > cursor_) continue;
        const std::int32_t end = std::min(size(), (block + 1) * kStride);
        for (std::int32_t i = std::max(cursor_, block * kStride); i < end; ++i) {
            if (ready_at_[at(i)] <= cursor_ && visit(order_[at(i)])) return;
        }
    }
}

/// A task that is not placed though the rule would have started it before `until`.
std::optional<IncrementalTimeline::Violation> IncrementalTimeline::find_violation(
    std::int64_t until) {
    std::optional<Violation> found;
    const auto visit = [&](Slot slot) {
        if (!found) found = violation_of(slot, until);
        return found.has_value();
    };
    waiting_.for_each(visit);
    if (!found) for_each_ready(visit);
    return found;
}

/// Everything that is ready and not placed waits for its turn by time, as the order before is of no use for a
/// while; each time for longer.
void IncrementalTimeline::go_by_time() {
    by_time_ = by_time_next_;
    by_time_next_ += kByTime / 2;
    for_each_ready([&](Slot slot) {
        if (!is_new(slot) && ready_time(slot) != kNever) put_off(slot);
        return false;
    });
}

std::optional<IncrementalTimeline::Violation> IncrementalTimeline::violation_of(
    Slot slot, std::int64_t until) const {
    if (!graph_.has(slot) || end_of(slot) != kNever) return std::nullopt;
    const std::int64_t ready = ready_time(slot);
    if (ready >= until) return std::nullopt;
    const std::int64_t moment = queues_.blocked_until(slot, ready, until);
    if (moment >= until) return std::nullopt;
    return Violation{slot, moment};
}

/// Every task stands on the first of its resources once.
void IncrementalTimeline::close_log() {
    const auto begin = static_cast<std::int32_t>(log_.size());
    for (std::size_t r = 0; r < queues_.size(); ++r) {
        for (const ResourceQueues::Entry& entry : queues_[r]) {
            const auto first = graph_.resources(graph_[entry.slot].lane)[0];
            if (at(first) == r) log_.push_back({entry.slot, entry.start});
        }
    }
    const auto end = static_cast<std::int32_t>(log_.size());
    if (end > begin) segments_.push_back({begin, end, 0, true});
}

}  // namespace partita::plan
