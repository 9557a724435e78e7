// SPDX-License-Identifier: Apache-2.0
//
// Placing tasks in the order of the accepted timeline, and in another where the rule asks for it.
#include <algorithm>
#include <stdexcept>

#include "plan/incremental_timeline.h"

namespace partita::plan {

/// The new makespan; false: more than the limit.
bool IncrementalTimeline::replay() {
    segments_.clear();
    log_.clear();
    if (relevant_.empty()) {
        segments_.push_back({0, size(), 0, false});
        new_makespan_ = makespan_;
        return true;
    }
    if (order_.empty()) {
        simulate_whole();
        return true;
    }
    queues_.forget();
    restart(relevant_.front(), 0);
    effort_.changed += double(graph_.changed().size());
    effort_.restart_at += double(restart_position_) / double(size());
    segments_.push_back({0, restart_position_, 0, false});
    if (!queues_.leave_time(time_, limit_)) return false;
    // Taking back may go on for very long in principle; seen are fewer than two placements per task.
    const auto most = static_cast<std::int64_t>(8 * graph_.tasks() + 1'000);
    for (std::int64_t steps = 0; steps < most; ++steps) {
        const Step result = step();
        if (result != Step::more) return result == Step::finished;
    }
    simulate_whole();
    return true;
}

/// Places one task, or takes some back, or follows the timeline before.
IncrementalTimeline::Step IncrementalTimeline::step() {
    Choice next = next_in_order();
    if (next.slot >= 0 && is_late(next)) look_ahead(next);
    if (!waiting_.empty()) {
        if (const auto first = first_waiting(next)) {
            in_run_ = false;
            return place({first->slot, ready_time(first->slot), first->start});
        }
    }
    if (next.slot < 0) {
        check_all_placed();
        close_log();
        new_makespan_ = queues_.latest_end();
        return Step::finished;
    }
    if (next.start == kNever) {
        put_off(next.slot);
        effort_.put_off += 1;
        ++cursor_;
        return Step::more;
    }
    switch (try_splice(next.start)) {
    case Splice::no: break;
    case Splice::taken_back: return Step::more;
    case Splice::jumped: return queues_.leave_time(time_, limit_) ? Step::more : Step::exceeded;
    case Splice::finished: return Step::finished;
    }
    follow_run(next.start);
    return place(next);
}

/// What comes next in the order before.
IncrementalTimeline::Choice IncrementalTimeline::next_in_order() {
    for (; cursor_ < size(); ++cursor_) {
        const Slot slot = order_[at(cursor_)];
        if (!is_new(slot)) {
            marks_[at(slot)].waits = -1;
            return choice_of(slot);
        }
        in_run_ = false;
    }
    return {};
}

IncrementalTimeline::Choice IncrementalTimeline::choice_of(Slot slot) const {
    Choice choice{.slot = slot, .ready = ready_time(slot), .start = kNever};
    if (choice.ready != kNever) {
        choice.start = queues_.earliest(graph_[slot].lane, choice.ready);
    }
    return choice;
}

/// Later than those before it, measured by the timeline before: others may go first.
bool IncrementalTimeline::is_late(const Choice& next) const {
    return next.start == kNever || next.start - starts_[at(cursor_)] > run_shift_;
}

/// Puts off what is late for something a little further on in the order that can start earlier.
void IncrementalTimeline::look_ahead(Choice& next) {
    std::int64_t bound = next.start;
    if (const auto first = first_waiting(next)) bound = first->start;
    const std::int32_t end = std::min(size(), cursor_ + kLookAhead);
    for (std::int32_t i = cursor_ + 1; i < end; ++i) {
        const Slot slot = order_[at(i)];
        if (is_new(slot)) continue;
        const Choice other = choice_of(slot);
        if (other.start >= bound) continue;
        for (; cursor_ < i; ++cursor_) {
            if (!is_new(order_[at(cursor_)])) put_off(order_[at(cursor_)]);
        }
        marks_[at(slot)].waits = -1;
        in_run_ = false;
        next = other;
        return;
    }
}

/// What was put off and goes before.
std::optional<LaneQueues::First> IncrementalTimeline::first_waiting(const Choice& before) {
    const bool is_known = before.start != kNever;
    return waiting_.first_before(before.start,
                                 is_known ? graph_[before.slot].key : ~std::uint64_t{0}, queues_);
}

IncrementalTimeline::Step IncrementalTimeline::place(const Choice& choice) {
    const auto [slot, ready, start] = choice;
    const SlotGraph::Node& node = graph_[slot];
    const bool was_put_off = mark(slot).waits >= 0;
    if (start > ready) {
        const std::int64_t moment = queues_.blocked_until(slot, ready, start);
        if (moment < start) {
            take_back({slot, moment});
            return Step::more;
        }
    }
    if (!queues_.leaves_time(node.lane, start, limit_)) {
        // True only if what is placed is right.
        const auto violation = find_violation(start);
        if (!violation) return Step::exceeded;
        take_back(*violation);
        return Step::more;
    }
    if (was_put_off) {
        waiting_.remove(node.lane, slot);
    } else {
        ++cursor_;
    }
    if (mark(slot).position >= cursor_) early_.push_back(slot);
    queues_.place(slot, start);
    count_placed(slot, start + node.duration);
    ++effort_.replayed;
    return Step::more;
}

/// The next task comes from the order before and starts then.
void IncrementalTimeline::follow_run(std::int64_t start) {
    const std::int64_t shift = start - starts_[at(cursor_)];
    if (in_run_ && shift == run_shift_) return;
    in_run_ = true;
    run_shift_ = shift;
    run_old_end_ = ends_before_[at(cursor_)];
    run_new_end_ = queues_.latest_end();
}

/// kNever: it is not placed. Where the timeline before was followed several times only the latest shift
/// is known, but whatever ended before the latest restart has ended.
std::int64_t IncrementalTimeline::end_of(Slot slot) const {
    const Mark& of = mark(slot);
    if (of.evaluation == evaluation_) return of.new_end;
    return of.position < restart_position_ ? of.end + shift_ : kNever;
}

/// At least the time of the restart; kNever: something that it needs is not placed.
std::int64_t IncrementalTimeline::ready_time(Slot slot) const {
    std::int64_t ready = time_;
    for (const Slot p : graph_[slot].predecessors) ready = std::max(ready, end_of(p));
    return ready;
}

/// It is placed when its turn by time has come.
void IncrementalTimeline::put_off(Slot slot) {
    Mark& of = marks_[at(slot)];
    of.evaluation = evaluation_;
    of.new_end = kNever;
    if (changed_index(slot) < 0) ++put_off_;
    of.waits = 0;
    for (const Slot p : graph_[slot].predecessors) {
        marks_[at(p)].feeds = evaluation_;
        if (end_of(p) == kNever) ++of.waits;
    }
    if (of.waits == 0) wait_in_lane(slot);
}

void IncrementalTimeline::wait_in_lane(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    waiting_.add(node.lane, {.key = node.key, .ready = ready_time(slot), .slot = slot});
}

void IncrementalTimeline::count_placed(Slot slot, std::int64_t end) {
    Mark& of = marks_[at(slot)];
    of.evaluation = evaluation_;
    of.new_end = end;
    if (of.waits >= 0) {
        of.waits = -1;
        if (changed_index(slot) < 0) --put_off_;
    }
    if (of.feeds != evaluation_) return;
    for (const Slot next : graph_.successors(slot)) {
        Mark& other = marks_[at(next)];
        if (is_new(next) && other.waits > 0 && --other.waits == 0) wait_in_lane(next);
    }
}

/// What began when the other task should have, or later, is put off, and so is that one.
void IncrementalTimeline::take_back(const Violation& violation) {
    ++effort_.taken_back;
    in_run_ = false;
    taken_back_.clear();
    while (!queues_.placed().empty()) {
        const ResourceQueues::Placed& latest = queues_.placed().back();
        if (latest.latest_start < violation.moment) break;
        taken_back_.push_back(latest.slot);
        take_back_latest();
    }
    for (const Slot slot : taken_back_) put_off(slot);
    const bool is_put_off = is_new(violation.slot) && mark(violation.slot).waits >= 0;
    if (!is_put_off) put_off(violation.slot);
    waiting_.look_up_again();
}

void IncrementalTimeline::take_back_latest() {
    const Slot slot = queues_.placed().back().slot;
    effort_.popped += 1;
    queues_.pop();
    marks_[at(slot)].new_end = kNever;
    if (mark(slot).feeds != evaluation_) return;
    for (const Slot next : graph_.successors(slot)) {
        if (!is_new(next) || mark(next).waits < 0) continue;
        if (marks_[at(next)].waits++ == 0) waiting_.remove(graph_[next].lane, next);
    }
}

void IncrementalTimeline::check_all_placed() const {
    const auto changed = graph_.changed();
    const bool all = put_off_ == 0 && std::all_of(changed.begin(), changed.end(), [&](Slot slot) {
                         return !graph_.has(slot) || mark(slot).new_end != kNever;
                     });
    if (!all) throw std::logic_error("evaluate: the graph has a cycle");
}

}  // namespace partita::plan
