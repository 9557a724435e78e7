// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental_timeline.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

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
