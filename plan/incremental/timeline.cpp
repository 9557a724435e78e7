// SPDX-License-Identifier: Apache-2.0
//
// The accepted timeline.
#include "plan/incremental/timeline.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plan/simulation/simulate.h"

namespace partita::plan {

IncrementalTimeline::IncrementalTimeline(int resource_count, Csr<std::int32_t> resource_sets,
                                         Csr<std::int32_t> hosts)
    : graph_(resource_count, std::move(resource_sets), std::move(hosts)), ready_(graph_) {}

std::optional<Time> IncrementalTimeline::evaluate(std::span<const SlotTask> tasks, Time limit) {
    check_settled();
    graph_.change(tasks);
    ++effort_.evaluations;
    limit_ = limit.raw();
    if (marks_.size() < graph_.slots()) {
        marks_.resize(graph_.slots());
    }
    const auto loads = graph_.loads();
    if (std::any_of(loads.begin(), loads.end(), [&](std::int64_t l) { return l > limit_; })) {
        ++effort_.rejected_by_load;
        graph_.reject();
        return std::nullopt;
    }
    if (!replay() || new_makespan_ > limit_) {
        ++effort_.rejected_early;
        forget_change();
        return std::nullopt;
    }
    pending_ = true;
    return Time(new_makespan_);
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
    for (const Slot slot : graph_.changed()) marks_[at(slot)].change = -1;
    graph_.reject();
}

void IncrementalTimeline::accept() {
    if (!pending_) throw std::logic_error("accept: no change is pending");
    pending_ = false;
    makespan_ = new_makespan_;
    for (const Slot slot : graph_.changed()) {
        marks_[at(slot)].change = -1;
        marks_[at(slot)].position = -1;
    }
    sort_log();
    if (segments_[0].replayed) segments_.insert(segments_.begin(), Segment{});
    const std::int32_t from = segments_[0].end;  // as before up to there
    collect_placed(from);
    put_placed(from);
    keep_ready(from);
    keep_occupied(from);
    keep_ends_after();
    if (hosts_.any()) hosts_.keep(at(from), starts_, resource_sets_);
}

/// By (start, key); it is in the order of starts already.
void IncrementalTimeline::sort_log() {
    const auto by_key = [&](const Started& a, const Started& b) {
        return graph_[a.slot].key < graph_[b.slot].key;
    };
    for (auto begin = log_.begin(); begin != log_.end();) {
        const auto end = std::find_if(begin + 1, log_.end(), [&](const Started& other) {
            return other.start != begin->start;
        });
        if (end - begin > 1) std::sort(begin, end, by_key);
        begin = end;
    }
}

void IncrementalTimeline::write_pending_order(std::vector<Slot>& order) {
    sort_log();
    order.clear();
    for (const Segment& segment : segments_) {
        if (!segment.replayed) {
            order.insert(order.end(), order_.begin() + segment.begin, order_.begin() + segment.end);
            continue;
        }
        for (std::int32_t i = segment.begin; i < segment.end; ++i) {
            order.push_back(log_[at(i)].slot);
        }
    }
}

/// The new timeline from a position on.
void IncrementalTimeline::collect_placed(std::int32_t from) {
    placed_.clear();
    for (std::size_t s = 1; s < segments_.size(); ++s) {
        const Segment& segment = segments_[s];
        if (!segment.replayed) {
            follow(segment, from);
            continue;
        }
        for (std::int32_t i = segment.begin; i < segment.end; ++i) {
            const auto [slot, start] = log_[at(i)];
            const SlotGraph::Node& node = graph_[slot];
            marks_[at(slot)].position = from + static_cast<std::int32_t>(placed_.size());
            placed_.push_back(
                {start, start + node.duration, slot, node.resource_set, node.launch, {}});
        }
    }
}

/// A piece of the timeline before.
void IncrementalTimeline::follow(const Segment& segment, std::int32_t from) {
    const std::int32_t further = from + static_cast<std::int32_t>(placed_.size()) - segment.begin;
    // What was ready after a task of this piece, or of the one that stays, still is.
    const auto ready_at = [&](std::int32_t before) -> std::optional<std::int32_t> {
        if (before > segment.begin) return before + further;
        return before <= from ? std::optional(before) : std::nullopt;
    };
    for (std::int32_t i = segment.begin; i < segment.end; ++i) {
        placed_.push_back({starts_[at(i)] + segment.shift, ends_[at(i)] + segment.shift,
                           order_[at(i)], resource_sets_[at(i)], graph_[order_[at(i)]].launch,
                           ready_at(ready_at_[at(i)])});
    }
    if (further == 0) return;
    for (std::int32_t i = segment.begin; i < segment.end; ++i) {
        marks_[at(order_[at(i)])].position = i + further;
    }
}

void IncrementalTimeline::put_placed(std::int32_t from) {
    const std::size_t size = at(from) + placed_.size();
    order_.resize(size);
    starts_.resize(size);
    ends_.resize(size);
    resource_sets_.resize(size);
    ready_at_.resize(size);
    if (hosts_.any()) put_launches(from);
    for (std::size_t i = 0; i < placed_.size(); ++i) {
        const Placed& task = placed_[i];
        order_[at(from) + i] = task.slot;
        starts_[at(from) + i] = task.start;
        ends_[at(from) + i] = task.end;
        resource_sets_[at(from) + i] = task.resource_set;
        ready_at_[at(from) + i] = task.ready_at ? *task.ready_at : find_ready_at(task.slot);
    }
}

void IncrementalTimeline::put_launches(std::int32_t from) {
    hosts_.resize(at(from) + placed_.size());
    for (std::size_t i = 0; i < placed_.size(); ++i) hosts_.put(at(from) + i, placed_[i].launch);
}

/// The position from which on an accepted task is ready.
std::int32_t IncrementalTimeline::find_ready_at(Slot slot) const {
    std::int32_t ready_at = 0;
    for (const Slot p : graph_[slot].predecessors) {
        ready_at = std::max(ready_at, mark(p).position + 1);
    }
    return ready_at;
}

/// Where tasks that are where they were may be ready elsewhere than before.
void IncrementalTimeline::keep_ready(std::int32_t from) {
    for (const Slot slot : graph_.changed()) {
        for (const Slot next : graph_.successors(slot)) {
            ready_at_[at(mark(next).position)] = find_ready_at(next);
        }
    }
    least_ready_at_.resize(blocks());
    for (std::int32_t block = from / kStride; at(block) < blocks(); ++block) {
        const auto begin = ready_at_.begin() + std::ptrdiff_t{block} * kStride;
        const auto end = std::min(begin + kStride, ready_at_.end());
        least_ready_at_[at(block)] = *std::min_element(begin, end);
    }
}

/// At checkpoints, and the largest ends before each position.
void IncrementalTimeline::keep_occupied(std::int32_t from) {
    const std::size_t resources = graph_.resource_count();
    const std::int32_t first = std::max(from - 1, 0) / kStride;
    const auto here = [&](std::int32_t block) {
        return std::ptrdiff_t{block} * static_cast<std::ptrdiff_t>(resources);
    };
    last_.resize(blocks() * resources);
    done_.resize(blocks() * resources);
    ends_before_.resize(order_.size());
    latest_.assign(resources, -1);
    done_so_far_.assign(resources, 0);
    std::int64_t latest_end = 0;
    if (first > 0) {
        std::copy_n(last_.begin() + here(first), resources, latest_.begin());
        std::copy_n(done_.begin() + here(first), resources, done_so_far_.begin());
        latest_end = ends_before_[at(std::int64_t{first} * kStride)];
    }
    for (std::int32_t i = first * kStride; i < size(); ++i) {
        if (i % kStride == 0) {
            std::copy_n(latest_.begin(), resources, last_.begin() + here(i / kStride));
            std::copy_n(done_so_far_.begin(), resources, done_.begin() + here(i / kStride));
        }
        for (const std::int32_t r : graph_.resources(resource_sets_[at(i)])) {
            latest_[at(r)] = order_[at(i)];
            done_so_far_[at(r)] += ends_[at(i)] - starts_[at(i)];
        }
        ends_before_[at(i)] = latest_end;
        latest_end = std::max(latest_end, ends_[at(i)]);
    }
}

void IncrementalTimeline::keep_ends_after() {
    ends_after_.resize(order_.size());
    std::int64_t largest = 0;
    for (std::size_t i = order_.size(); i-- > 0;) {
        largest = std::max(largest, ends_[i]);
        ends_after_[i] = largest;
    }
}

}  // namespace partita::plan
