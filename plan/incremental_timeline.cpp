// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental_timeline.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plan/min_heap.h"

namespace partita::plan {

IncrementalTimeline::IncrementalTimeline(int resource_count, Csr<std::int32_t> lanes)
    : graph_(resource_count, std::move(lanes)),
      busy_until_(at(resource_count), 0),
      waiters_(at(resource_count)),
      done_(at(resource_count), 0) {}

std::optional<Time> IncrementalTimeline::evaluate(std::span<const SlotTask> tasks, Time limit) {
    check_settled();
    graph_.change(tasks);
    ++effort_.evaluations;
    limit_ = limit.raw();
    if (marks_.size() < graph_.slots()) marks_.resize(graph_.slots());
    lanes_.resize(graph_.lanes());
    const auto loads = graph_.loads();
    if (std::any_of(loads.begin(), loads.end(), [&](std::int64_t l) { return l > limit_; })) {
        ++effort_.rejected_by_load;
        graph_.undo();
        return std::nullopt;
    }
    find_windows();
    const auto makespan = simulate();
    if (!makespan || *makespan > limit_) {
        ++effort_.rejected_early;
        forget_change();
        return std::nullopt;
    }
    pending_ = true;
    latest_end_ = *makespan;
    return Time(*makespan);
}

void IncrementalTimeline::check_settled() const {
    if (pending_) throw std::logic_error("evaluate: the change before is neither accepted nor not");
}

void IncrementalTimeline::reject() {
    if (!pending_) throw std::logic_error("reject: no change is pending");
    forget_change();
    pending_ = false;
}

void IncrementalTimeline::forget_change() {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        const std::int32_t p = windows_[i].position;
        marks_[at(graph_.changed()[i])].end = p >= 0 ? ends_[at(p)] : kNever;
    }
    graph_.undo();
}

/// Those that were committed after an earlier restart are complete, because nothing changed runs where
/// the timeline before is followed.
void IncrementalTimeline::set_changed_ends() {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        marks_[at(graph_.changed()[i])].end = windows_[i].restart != 0 ? kAlways : kNever;
    }
}

/// Which positions of the old timeline matter to the changed tasks.
void IncrementalTimeline::find_windows() {
    constexpr std::int32_t kUnknown = -2;
    ++evaluation_;
    const std::span<const Slot> changed = graph_.changed();
    windows_.assign(changed.size(), {.position = -1, .relevant = kUnknown, .restart = 0});
    old_changed_.clear();
    relevant_.clear();
    for (std::size_t i = 0; i < changed.size(); ++i) {
        Mark& mark = marks_[at(changed[i])];
        mark.evaluation = evaluation_;
        mark.changed = static_cast<std::int32_t>(i);
        if (graph_.before(i).lane >= 0) windows_[i].position = position(changed[i]);
        if (windows_[i].position >= 0) old_changed_.push_back(windows_[i].position);
    }
    relevant_ = old_changed_;
    for (std::size_t i = 0; i < changed.size(); ++i) {
        if (graph_.has(changed[i])) relevant_.push_back(relevant_of(i));
    }
    std::sort(old_changed_.begin(), old_changed_.end());
    std::sort(relevant_.begin(), relevant_.end());
    relevant_.erase(std::unique(relevant_.begin(), relevant_.end()), relevant_.end());
}

/// A task whose duration alone differs is committed where it was, if nothing before differs.
bool IncrementalTimeline::only_lasts_longer(std::size_t index) const {
    const SlotGraph::Before& before = graph_.before(index);
    const SlotGraph::Node& now = graph_[graph_.changed()[index]];
    return before.lane == now.lane && before.key == now.key &&
           before.predecessors == graph_.predecessors(graph_.changed()[index]);
}

/// The last of the commits that must come before the new task can be ready.
std::int32_t IncrementalTimeline::relevant_of(std::size_t index) {
    Window& window = windows_[index];
    if (window.relevant >= -1) return window.relevant;
    window.relevant = 0;  // ends the recursion should the change be cyclic; simulate() finds that
    if (only_lasts_longer(index)) return window.relevant = window.position;
    std::int32_t latest = 0;
    for (const Slot p : graph_.predecessors(graph_.changed()[index])) {
        const std::int32_t changed = changed_index(p);
        const std::int32_t own = changed >= 0 ? relevant_of(at(changed)) : position(p);
        latest = std::max(latest, own);
    }
    return windows_[index].relevant = latest;
}

std::optional<std::int64_t> IncrementalTimeline::simulate() {
    segments_.clear();
    log_.clear();
    log_starts_.clear();
    log_closed_ = 0;
    latest_end_ = 0;
    if (relevant_.empty()) {
        segments_.push_back({0, static_cast<std::int32_t>(order_.size()), 0, false});
        return makespan_;
    }
    restart(relevant_.front(), 0);
    if (!all_fit()) return std::nullopt;
    while (committed_ < graph_.tasks()) {
        const Slot next = next_commit();
        if (next < 0) {
            if (running_.empty()) throw std::logic_error("evaluate: the graph has a cycle");
            now_ = running_.back().end;
            complete_due();
            continue;
        }
        const Splice splice = try_splice(next);
        if (splice == Splice::finished) return latest_end_;
        if (splice == Splice::jumped) {
            if (!all_fit()) return std::nullopt;
            continue;
        }
        if (!fits(graph_[next].lane)) return std::nullopt;
        commit(next);
    }
    close_log();
    return latest_end_;
}

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

/// Follows the old timeline where it agrees with the new one right before the commit of `next`.
IncrementalTimeline::Splice IncrementalTimeline::try_splice(Slot next) {
    if (order_.empty() || changed_index(next) >= 0) return Splice::no;
    const std::int32_t k = position(next);
    if (largest_position_ >= k || running_.size() != running_counts_[at(k)]) return Splice::no;
    const auto old = std::lower_bound(old_changed_.begin(), old_changed_.end(), k);
    if (unchanged_committed_ != k - static_cast<std::int32_t>(old - old_changed_.begin())) {
        return Splice::no;
    }
    const auto target = std::lower_bound(relevant_.begin(), relevant_.end(), k);
    const bool last = target == relevant_.end();
    if (!last && *target - k < kWorthAJump) return Splice::no;
    const std::int64_t shift = now_ - starts_[at(k)];
    if (!windows_agree(k) || !running_agree(k, shift)) return Splice::no;
    close_log();
    ++effort_.spliced;
    const auto end = last ? static_cast<std::int32_t>(order_.size()) : *target;
    segments_.push_back({k, end, shift, false});
    if (last) {
        latest_end_ = std::max(latest_end_, ends_after_[at(k)] + shift);
        return Splice::finished;
    }
    restart(end, shift);
    return Splice::jumped;
}

/// Of the changed tasks those of windows before the position are all committed, those of later ones
/// are not.
bool IncrementalTimeline::windows_agree(std::int32_t position) const {
    for (std::size_t i = 0; i < windows_.size(); ++i) {
        if (!graph_.has(graph_.changed()[i])) continue;
        const Window& window = windows_[i];
        const bool committed = window.restart != 0;
        if ((window.relevant < position) != committed) return false;
        if (window.position >= 0 && (window.position < position) != committed) return false;
    }
    return true;
}

/// The same tasks run, unchanged, and end `shift` later.
bool IncrementalTimeline::running_agree(std::int32_t position, std::int64_t shift) const {
    return std::all_of(running_.begin(), running_.end(), [&](const Running& task) {
        if (changed_index(task.slot) >= 0) return false;
        const std::int32_t p = this->position(task.slot);
        return p < position && ends_[at(p)] + shift == task.end;
    });
}

void IncrementalTimeline::close_log() {
    if (log_closed_ == log_.size()) return;
    segments_.push_back(
        {static_cast<std::int32_t>(log_closed_), static_cast<std::int32_t>(log_.size()), 0, true});
    log_closed_ = log_.size();
}

void IncrementalTimeline::accept() {
    if (!pending_) throw std::logic_error("accept: no change is pending");
    pending_ = false;
    makespan_ = latest_end_;
    std::vector<Slot> order;
    std::vector<std::int64_t> starts;
    order.reserve(graph_.tasks());
    starts.reserve(graph_.tasks());
    for (const Segment& segment : segments_) {
        const std::vector<Slot>& slots = segment.simulated ? log_ : order_;
        const std::vector<std::int64_t>& times = segment.simulated ? log_starts_ : starts_;
        for (std::int32_t i = segment.begin; i < segment.end; ++i) {
            order.push_back(slots[at(i)]);
            starts.push_back(times[at(i)] + segment.shift);
        }
    }
    for (const Slot slot : graph_.changed()) {
        marks_[at(slot)].position = -1;
        marks_[at(slot)].end = kNever;
    }
    order_ = std::move(order);
    starts_ = std::move(starts);
    rebuild();
}

/// Everything that is kept beside order and starts, in one pass over the timeline.
void IncrementalTimeline::rebuild() {
    const std::size_t n = order_.size();
    ends_.resize(n);
    ends_before_.resize(n);
    ends_after_.resize(n);
    running_counts_.resize(n);
    checkpoints_.resize((n + at(kStride) - 1) / at(kStride));
    ++epoch_;
    clear_simulation();
    std::vector<Slot> ready;
    std::vector<std::int32_t> place(graph_.slots(), -1);  // in `ready`
    const auto add = [&](Slot slot) {
        place[at(slot)] = static_cast<std::int32_t>(ready.size());
        ready.push_back(slot);
    };
    for (const Slot slot : order_) {
        if (graph_.predecessors(slot).empty()) add(slot);
    }
    std::int64_t latest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const Slot slot = order_[i];
        now_ = starts_[i];
        while (!running_.empty() && running_.back().end <= now_) {
            const Slot ended = running_.back().slot;
            running_.pop_back();
            for (const Slot next : graph_[ended].successors) {
                Mark& mark = marks_[at(next)];
                if (mark.epoch != epoch_) {
                    mark.epoch = epoch_;
                    mark.waiting = static_cast<std::int32_t>(graph_.predecessors(next).size());
                }
                if (--mark.waiting == 0) add(next);
            }
        }
        marks_[at(slot)].position = static_cast<std::int32_t>(i);
        ends_[i] = now_ + graph_[slot].duration;
        ends_before_[i] = latest;
        latest = std::max(latest, ends_[i]);
        running_counts_[i] = static_cast<std::uint32_t>(running_.size());
        if (i % at(kStride) == 0) {
            Checkpoint& checkpoint = checkpoints_[i / at(kStride)];
            checkpoint.running = running_;
            checkpoint.ready = ready;
            checkpoint.done = done_;
        }
        const std::int32_t hole = place[at(slot)];
        ready[at(hole)] = ready.back();
        place[at(ready.back())] = hole;
        ready.pop_back();
        marks_[at(slot)].end = ends_[i];
        add_running({ends_[i], slot});
        add_done(graph_[slot].lane, graph_[slot].duration);
    }
    std::int64_t largest = 0;
    for (std::size_t i = n; i-- > 0;) {
        largest = std::max(largest, ends_[i]);
        ends_after_[i] = largest;
    }
}

}  // namespace partita::plan
