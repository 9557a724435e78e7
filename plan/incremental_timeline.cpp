// SPDX-License-Identifier: Apache-2.0
//
// The accepted timeline.
#include "plan/incremental_timeline.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plan/simulate.h"

namespace partita::plan {

IncrementalTimeline::IncrementalTimeline(int resource_count, Csr<std::int32_t> lanes)
    : graph_(resource_count, std::move(lanes)), ready_(graph_) {}

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
        graph_.undo();
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
    for (const Slot slot : graph_.changed()) marks_[at(slot)].changed = -1;
    graph_.undo();
}

void IncrementalTimeline::accept() {
    if (!pending_) throw std::logic_error("accept: no change is pending");
    pending_ = false;
    makespan_ = new_makespan_;
    for (const Slot slot : graph_.changed()) {
        Mark& mark = marks_[at(slot)];
        mark.changed = -1;
        mark.position = -1;
        mark.end = kNever;
    }
    sort_log();
    if (segments_[0].replayed) segments_.insert(segments_.begin(), Segment{});
    const std::int32_t from = segments_[0].end;  // as before up to there
    write_new(from);
    keep(from);
    keep_ends_after();
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

/// Order and starts from a position on.
void IncrementalTimeline::write_new(std::int32_t from) {
    std::vector<Started>& tasks = started_;
    tasks.clear();
    for (std::size_t s = 1; s < segments_.size(); ++s) {
        const Segment& segment = segments_[s];
        if (segment.replayed) {
            tasks.insert(tasks.end(), log_.begin() + segment.begin, log_.begin() + segment.end);
            continue;
        }
        for (std::int32_t i = segment.begin; i < segment.end; ++i) {
            tasks.push_back({order_[at(i)], starts_[at(i)] + segment.shift});
        }
    }
    order_.resize(at(from) + tasks.size());
    starts_.resize(order_.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        order_[at(from) + i] = tasks[i].slot;
        starts_[at(from) + i] = tasks[i].start;
    }
}

/// Everything that is kept beside order and starts and does not depend on what comes later.
void IncrementalTimeline::keep(std::int32_t from) {
    const std::size_t resources = graph_.resource_count();
    const std::int32_t first = std::max(from - 1, 0) / kStride;
    const auto blocks = at((size() + kStride - 1) / kStride);
    const auto here = [&](std::size_t block) {
        return static_cast<std::ptrdiff_t>(block * resources);
    };
    last_.resize(blocks * resources);
    done_.resize(blocks * resources);
    least_ready_at_.resize(blocks);
    ends_before_.resize(order_.size());
    ready_at_.resize(order_.size());
    latest_.assign(resources, -1);
    done_so_far_.assign(resources, 0);
    std::int64_t latest_end = 0;
    if (first > 0) {
        std::copy_n(last_.begin() + here(at(first)), resources, latest_.begin());
        std::copy_n(done_.begin() + here(at(first)), resources, done_so_far_.begin());
        latest_end = ends_before_[at(std::int64_t{first} * kStride)];
    }
    for (std::int32_t i = first * kStride; i < size(); ++i) {
        const auto block = at(i / kStride);
        if (i % kStride == 0) {
            std::copy_n(latest_.begin(), resources, last_.begin() + here(block));
            std::copy_n(done_so_far_.begin(), resources, done_.begin() + here(block));
            least_ready_at_[block] = i;
        }
        const Slot slot = order_[at(i)];
        const SlotGraph::Node& node = graph_[slot];
        for (const std::int32_t r : graph_.resources(node.lane)) {
            latest_[at(r)] = slot;
            done_so_far_[at(r)] += node.duration;
        }
        Mark& mark = marks_[at(slot)];
        mark.position = i;
        mark.end = starts_[at(i)] + node.duration;
        ends_before_[at(i)] = latest_end;
        latest_end = std::max(latest_end, mark.end);
        std::int32_t ready_at = 0;
        for (const Slot p : node.predecessors) {
            ready_at = std::max(ready_at, this->mark(p).position + 1);
        }
        ready_at_[at(i)] = ready_at;
        least_ready_at_[block] = std::min(least_ready_at_[block], ready_at);
    }
}

void IncrementalTimeline::keep_ends_after() {
    ends_after_.resize(order_.size());
    std::int64_t largest = 0;
    for (std::size_t i = order_.size(); i-- > 0;) {
        largest = std::max(largest, mark(order_[i]).end);
        ends_after_[i] = largest;
    }
}

}  // namespace partita::plan
