// SPDX-License-Identifier: Apache-2.0
//
// Simulating from a state of the accepted timeline on.
#include <algorithm>
#include <stdexcept>

#include "plan/incremental/timeline.h"

namespace partita::plan {

/// The new makespan; false: more than the limit.
bool IncrementalTimeline::replay() {
    segments_.clear();
    log_.clear();
    const std::int64_t first = find_windows();
    if (first == kNever) {
        check_changed_started();
        segments_.push_back({0, size(), 0, false});
        new_makespan_ = makespan_;
        return true;
    }
    latest_end_ = 0;
    hosts_.begin();
    restart(first, 0);
    segments_.push_back({0, restart_position_, 0, false});
    if (!rest_fits()) return false;
    while (ready_.start_all([&](Slot slot) { return begin(slot); })) {
        if (running_.empty()) {
            check_all_started();
            close_log();
            new_makespan_ = latest_end_;
            return true;
        }
        end_tasks();
        switch (try_splice()) {
        case Splice::no: break;
        case Splice::finished: return true;
        case Splice::jumped:
            if (!rest_fits()) return false;
            break;
        }
    }
    return false;
}

/// Goes on from the accepted timeline at a time of it, `shift` later. What began before is settled.
void IncrementalTimeline::restart(std::int64_t relevant, std::int64_t shift) {
    if (++restart_ == 0) {  // all numbers were used
        for (Mark& mark : marks_) mark.restart = 0;
        ++restart_;
    }
    restart_position_ = position_at(relevant);
    now_ = relevant + shift;
    last_position_ = restart_position_ - 1;
    unchanged_ = 0;
    const auto settled =
        std::lower_bound(changed_positions_.begin(), changed_positions_.end(), restart_position_);
    settled_ = passed_ = static_cast<std::size_t>(settled - changed_positions_.begin());
    next_try_ = 0;
    log_begin_ = static_cast<std::int32_t>(log_.size());
    const bool at_end = restart_position_ == size();
    const std::int64_t latest = at_end ? makespan_ : ends_before_[at(restart_position_)];
    latest_end_ = std::max(latest_end_, latest + shift);
    find_rest();
    ready_.clear();
    running_.clear();
    find_running(restart_position_, relevant);
    for (const Slot slot : found_running_) {
        ready_.occupy(graph_[slot].resource_set);
        run(slot, end_of(slot) + shift);
    }
    if (hosts_.any()) {
        hosts_.restart(at(restart_position_), resource_sets_);
        for (std::size_t d = 0; d < graph_.host_count(); ++d) close_host(std::int32_t(d));
    }
    find_ready();
}

/// From the checkpoint before.
void IncrementalTimeline::find_rest() {
    rest_.assign(graph_.loads().begin(), graph_.loads().end());
    const auto add = [&](std::int32_t resource_set, std::int64_t duration) {
        for (const std::int32_t r : graph_.resources(resource_set)) rest_[at(r)] += duration;
    };
    if (!order_.empty()) {
        const std::int32_t block = std::min(restart_position_, size() - 1) / kStride;
        for (std::size_t r = 0; r < rest_.size(); ++r) {
            rest_[r] -= done_[at(block) * rest_.size() + r];
        }
        for (std::int32_t i = block * kStride; i < restart_position_; ++i) {
            add(resource_sets_[at(i)], starts_[at(i)] - ends_[at(i)]);
        }
    }
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const Slot slot = graph_.changed()[i];
        const SlotGraph::Before& before = graph_.before(i);
        const bool began_before =
            before.resource_set >= 0 && mark(slot).position < restart_position_;
        if (began_before) add(before.resource_set, before.duration);
        if (windows_[i].has_started) add(graph_[slot].resource_set, -graph_[slot].duration);
    }
}

/// What is ready at the restart, and what waits of the changed tasks.
void IncrementalTimeline::find_ready() {
    const auto changed = graph_.changed();
    for (std::size_t i = 0; i < changed.size(); ++i) {
        Mark& of = marks_[at(changed[i])];
        of.restart = restart_;
        of.progress = windows_[i].has_started ? Progress::ended() : Progress::waits_for(1);
    }
    for (std::size_t i = 0; i < changed.size(); ++i) {
        if (!graph_.has(changed[i])) continue;
        if (!windows_[i].has_started) {
            enter(changed[i]);
            continue;
        }
        for (const Slot next : graph_.successors(changed[i])) {
            const Mark& of = mark(next);
            const bool waits = !of.is_changed() && of.position >= restart_position_;
            if (waits && of.restart != restart_) enter(next);
        }
    }
    for (std::int32_t block = restart_position_ / kStride; block * kStride < size(); ++block) {
        if (least_ready_at_[at(block)] > restart_position_) continue;
        const std::int32_t end = std::min(size(), (block + 1) * kStride);
        for (std::int32_t i = std::max(restart_position_, block * kStride); i < end; ++i) {
            const Slot slot = order_[at(i)];
            if (ready_at_[at(i)] <= restart_position_ && mark(slot).restart != restart_) {
                enter(slot);
            }
        }
    }
}

/// Counts what a task waits for.
void IncrementalTimeline::enter(Slot slot) {
    Mark& of = marks_[at(slot)];
    of.restart = restart_;
    of.progress = Progress::waits_for(count_unfinished(slot));
    if (of.progress.is_ready()) ready_.add(slot);
}

bool IncrementalTimeline::has_ended(Slot slot) const {
    const Mark& of = mark(slot);
    if (of.restart == restart_) return of.progress.has_ended();
    return of.is_accepted() && of.position < restart_position_;
}

std::int32_t IncrementalTimeline::count_unfinished(Slot slot) const {
    std::int32_t count = 0;
    for (const Slot p : graph_[slot].predecessors) count += has_ended(p) ? 0 : 1;
    return count;
}

/// False: what its resources still have to do does not fit any more.
bool IncrementalTimeline::begin(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    for (const std::int32_t r : graph_.resources(node.resource_set)) {
        std::int64_t& rest = rest_[at(r)];
        if (now_ + rest > limit_) return false;
        rest -= node.duration;
    }
    ++effort_.replayed;
    const Mark& of = mark(slot);
    if (!of.is_changed()) {
        ++unchanged_;
        last_position_ = std::max(last_position_, of.position);
    } else {
        windows_[at(of.change)].has_started = true;
    }
    log_.push_back({slot, now_});
    __builtin_prefetch(&graph_.successors(slot));
    const std::int64_t end = now_ + node.duration;
    latest_end_ = std::max(latest_end_, end);
    run(slot, end);
    const auto hosts = graph_.hosts(node.resource_set);
    if (hosts.empty()) return true;
    hosts_.launch(node);
    for (const std::int32_t device : hosts) close_host(device);
    return true;
}

void IncrementalTimeline::run(Slot slot, std::int64_t end) {
    Mark& of = marks_[at(slot)];
    of.restart = restart_;
    of.progress = Progress::runs();
    insert_running({end, slot});
}

/// Until it has launched what has started.
void IncrementalTimeline::close_host(std::int32_t device) {
    const std::int64_t launched = hosts_.launched(at(device));
    if (launched <= now_) return;
    ready_.close_host(device);
    insert_running({launched, -1 - device});
}

void IncrementalTimeline::insert_running(const Running& running) {
    std::size_t i = running_.size();
    running_.push_back(running);
    for (; i > 0 && running_[i - 1].end < running.end; --i) running_[i] = running_[i - 1];
    running_[i] = running;
}

/// Those that end next.
void IncrementalTimeline::end_tasks() {
    now_ = running_.back().end;
    ended_.clear();
    for (; !running_.empty() && running_.back().end == now_; running_.pop_back()) {
        if (running_.back().is_host()) {
            ready_.open_host(running_.back().device());
            continue;
        }
        const Slot slot = running_.back().slot;
        ended_.push_back(slot);
        // Scattered in memory, and needed below.
        for (const Slot next : graph_.successors(slot)) {
            __builtin_prefetch(&marks_[at(next)]);
            __builtin_prefetch(&graph_[next]);
        }
    }
    for (const Slot slot : ended_) {
        marks_[at(slot)].progress = Progress::ended();
        ready_.release(graph_[slot].resource_set);
        for (const Slot next : graph_.successors(slot)) {
            Mark& of = marks_[at(next)];
            if (of.restart != restart_) {
                enter(next);
                continue;
            }
            of.progress.count_down();
            if (of.progress.is_ready()) ready_.add(next);
        }
    }
}

/// Could every resource be done in time, if it never waited again? One with nothing left to do may
/// have been before now: now is when a host has launched, too, whoever waited for it.
bool IncrementalTimeline::rest_fits() const {
    return std::all_of(rest_.begin(), rest_.end(),
                       [&](std::int64_t rest) { return rest == 0 || now_ + rest <= limit_; });
}

void IncrementalTimeline::close_log() {
    const auto end = static_cast<std::int32_t>(log_.size());
    if (end > log_begin_) segments_.push_back({log_begin_, end, 0, true});
}

void IncrementalTimeline::check_all_started() const {
    const auto changed = static_cast<std::int32_t>(changed_positions_.size() - settled_);
    if (unchanged_ + changed != size() - restart_position_) throw_cycle();
    check_changed_started();
}

void IncrementalTimeline::check_changed_started() const {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        if (!windows_[i].has_started && graph_.has(graph_.changed()[i])) throw_cycle();
    }
}

void IncrementalTimeline::throw_cycle() {
    throw std::logic_error("evaluate: the graph has a cycle");
}

}  // namespace partita::plan
