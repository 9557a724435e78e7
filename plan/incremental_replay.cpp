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
    log_is_sorted_ = false;
    if (relevant_.empty()) {
        segments_.push_back({0, size(), 0, false});
        new_makespan_ = makespan_;
        return true;
    }
    if (order_.empty()) {
        simulate_whole();
        return true;
    }
    latest_end_ = 0;
    restart(relevant_.front(), 0);
    segments_.push_back({0, restart_position_, 0, false});
    if (!queues_.all_leave_time(time_, limit_)) return false;
    // In principle taking back may go on for very long.
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
    if (by_time_ > 0) {
        if (const auto first = first_waiting({})) {
            --by_time_;
            return place(*first);
        }
        by_time_ = 0;
    }
    Choice next = next_in_order();
    std::optional<Choice> first = first_waiting(next);
    if (next.slot >= 0 && look_ahead(next, first ? first->start : next.start)) {
        first = first_waiting(next);
    }
    if (first) {
        in_run_ = false;
        return place(*first);
    }
    if (next.slot < 0) {
        check_all_placed();
        close_log();
        new_makespan_ = std::max(settled_end_, queues_.latest_end());
        return Step::finished;
    }
    if (next.start == kNever) {
        ++cursor_;
        put_off(next.slot);
        return Step::more;
    }
    switch (try_splice(next.start)) {
    case Splice::no: break;
    case Splice::taken_back: return Step::more;
    case Splice::jumped: return queues_.all_leave_time(time_, limit_) ? Step::more : Step::exceeded;
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
        pass(slot);
    }
    return {};
}

/// The cursor leaves a task behind that was placed, put off or changed.
void IncrementalTimeline::pass(Slot slot) {
    if (mark(slot).new_end == kNever && changed_index(slot) < 0) ++behind_;
    in_run_ = false;
}

IncrementalTimeline::Choice IncrementalTimeline::choice_of(Slot slot) const {
    Choice choice{.start = kNever, .ready = ready_time(slot), .slot = slot};
    if (choice.ready != kNever) {
        choice.start = queues_.earliest(graph_[slot].lane, choice.ready);
    }
    return choice;
}

/// What comes later than those before it, measured by the timeline before, is put off for something a little
/// further on that can start before anything else does.
bool IncrementalTimeline::look_ahead(Choice& next, std::int64_t bound) {
    if (bound != kNever && bound <= starts_[at(cursor_)] + run_shift_) return false;
    if (looked_ahead_at_ == cursor_ && --look_again_in_ > 0) return false;
    const std::int32_t end = std::min(size(), cursor_ + kLookAhead);
    for (std::int32_t i = cursor_ + 1; i < end; ++i) {
        const Slot slot = order_[at(i)];
        if (is_new(slot)) continue;
        const Choice other = choice_of(slot);
        if (other.start >= bound) continue;
        while (cursor_ < i) {
            const Slot late = order_[at(cursor_++)];
            if (is_new(late)) {
                pass(late);
            } else {
                put_off(late);
            }
        }
        marks_[at(slot)].waits = -1;
        next = other;
        return true;
    }
    looked_ahead_at_ = cursor_;
    look_again_in_ = kLookAgain;
    return false;
}

/// What was put off and goes before.
std::optional<IncrementalTimeline::Choice> IncrementalTimeline::first_waiting(
    const Choice& before) {
    if (waiting_.empty()) return std::nullopt;
    const bool is_known = before.start != kNever;
    return waiting_.first_before(before.start,
                                 is_known ? graph_[before.slot].key : ~std::uint64_t{0}, queues_);
}

IncrementalTimeline::Step IncrementalTimeline::place(const Choice& choice) {
    const auto [start, ready, slot, is_sure] = choice;
    const SlotGraph::Node& node = graph_[slot];
    const bool was_put_off = mark(slot).waits >= 0;
    if (start > ready && !is_sure) {
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
    latest_end_ = std::max(latest_end_, start + node.duration);
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
    run_new_end_ = latest_end_;
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
    for (const Slot p : graph_[slot].predecessors) {
        const std::int64_t end = end_of(p);
        if (end == kNever) return kNever;
        ready = std::max(ready, end);
    }
    return ready;
}

/// It is placed when its turn by time has come.
void IncrementalTimeline::put_off(Slot slot) {
    Mark& of = marks_[at(slot)];
    of.evaluation = evaluation_;
    of.new_end = kNever;
    in_run_ = false;
    put_off_.push_back(slot);
    if (changed_index(slot) < 0 && of.position < cursor_) ++behind_;
    of.waits = 0;
    for (const Slot p : graph_[slot].predecessors) {
        marks_[at(p)].feeds = evaluation_;
        if (end_of(p) == kNever) ++of.waits;
    }
    if (of.waits == 0) wait_in_lane(slot);
}

/// What is placed from now on goes before it by rights, so only what starts after it is ready and is there
/// already may keep it waiting wrongly.
void IncrementalTimeline::wait_in_lane(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    const std::int64_t ready = ready_time(slot);
    waiting_.add(node.lane, {.key = node.key,
                             .ready = ready,
                             .slot = slot,
                             .is_sure = queues_.all_began_before(node.lane, ready)});
}

void IncrementalTimeline::count_placed(Slot slot, std::int64_t end) {
    Mark& of = marks_[at(slot)];
    of.evaluation = evaluation_;
    of.new_end = end;
    if (of.waits >= 0) {
        of.waits = -1;
        if (changed_index(slot) < 0 && of.position < cursor_) --behind_;
    }
    if (of.feeds != evaluation_ && by_time_ == 0) return;
    for (const Slot next : graph_.successors(slot)) {
        Mark& other = marks_[at(next)];
        if (!is_new(next)) {
            if (by_time_ > 0) put_off(next);
        } else if (other.waits > 0) {
            --other.waits;
            if (other.waits == 0) wait_in_lane(next);
        }
    }
}

/// What comes later on the resources of a task that should have started there is put off, with all that
/// comes after it, and so is the task.
void IncrementalTimeline::take_back(const Violation& violation) {
    ++effort_.taken_back;
    taken_back_.clear();
    cuts_.resize(graph_.resource_count(), kNever);
    for (const std::int32_t r : graph_.resources(graph_[violation.slot].lane)) {
        take_back_from(r, violation.moment);
    }
    for (std::size_t i = 0; i < taken_back_.size(); ++i) {  // which grows
        const auto [slot, start] = taken_back_[i];
        for (const std::int32_t r : graph_.resources(graph_[slot].lane)) take_back_from(r, start);
        for (const Slot next : graph_.successors(slot)) {
            if (is_new(next) && mark(next).new_end != kNever) take_back_one(next);
        }
    }
    for (const std::int32_t r : cut_resources_) queues_.cut(r, cuts_[at(r)]);
    waiting_.look_up_again([&](std::int32_t lane) {
        const auto resources = graph_.resources(lane);
        return std::any_of(resources.begin(), resources.end(),
                           [&](std::int32_t r) { return cuts_[at(r)] != kNever; });
    });
    for (const std::int32_t r : cut_resources_) cuts_[at(r)] = kNever;
    cut_resources_.clear();
    for (const Started& task : taken_back_) put_off(task.slot);
    if (!is_new(violation.slot)) put_off(violation.slot);
    go_by_time();
}

/// What starts on the resource then or later.
void IncrementalTimeline::take_back_from(std::int32_t resource, std::int64_t start) {
    if (cuts_[at(resource)] <= start) return;
    if (cuts_[at(resource)] == kNever) cut_resources_.push_back(resource);
    cuts_[at(resource)] = start;
    const auto entries = queues_[at(resource)];
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
        if (entry->start < start) break;
        if (mark(entry->slot).new_end != kNever) take_back_one(entry->slot);
    }
}

void IncrementalTimeline::take_back_one(Slot slot) {
    Mark& of = marks_[at(slot)];
    taken_back_.push_back({slot, of.new_end - graph_[slot].duration});
    of.new_end = kNever;
    if (of.feeds != evaluation_) return;
    for (const Slot next : graph_.successors(slot)) {
        if (!is_new(next) || mark(next).waits < 0) continue;
        if (marks_[at(next)].waits++ == 0) waiting_.remove(graph_[next].lane, next);
    }
}

void IncrementalTimeline::check_all_placed() const {
    const auto changed = graph_.changed();
    const bool all = behind_ == 0 && std::all_of(changed.begin(), changed.end(), [&](Slot slot) {
                         return !graph_.has(slot) || mark(slot).new_end != kNever;
                     });
    if (!all) throw std::logic_error("evaluate: the graph has a cycle");
}

}  // namespace partita::plan
