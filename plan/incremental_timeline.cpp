// SPDX-License-Identifier: Apache-2.0
//
// The accepted timeline.
#include "plan/incremental_timeline.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "plan/simulate.h"

namespace partita::plan {

namespace {

/// The tasks of a slot graph by key, so that a task's number is its rank.
struct Numbered {
    std::vector<Slot> slots;
    TaskGraph graph;
};

Numbered numbered(const SlotGraph& slots) {
    Numbered by_key;
    for (std::size_t i = 0; i < slots.slots(); ++i) {
        if (slots.has(static_cast<Slot>(i))) by_key.slots.push_back(static_cast<Slot>(i));
    }
    std::sort(by_key.slots.begin(), by_key.slots.end(),
              [&](Slot a, Slot b) { return slots[a].key < slots[b].key; });
    std::vector<TaskId> number(slots.slots(), -1);
    for (std::size_t i = 0; i < by_key.slots.size(); ++i) {
        number[static_cast<std::size_t>(by_key.slots[i])] = static_cast<TaskId>(i);
    }
    TaskGraph& graph = by_key.graph;
    graph.device_count = 1;
    graph.resource_count = static_cast<std::int32_t>(slots.resource_count());
    graph.lanes = slots.lane_table();
    for (const Slot slot : by_key.slots) {
        const SlotGraph::Node& node = slots[slot];
        Task task{.op = {}, .tensor = {}, .lane = node.lane};
        task.rank = static_cast<std::int32_t>(graph.tasks.size());
        task.duration = Time(node.duration);
        graph.tasks.push_back(task);
        graph.predecessor_counts.push_back(static_cast<std::int32_t>(node.predecessors.size()));
        for (const Slot next : slots.successors(slot)) {
            graph.successors.items.push_back(number[static_cast<std::size_t>(next)]);
        }
        graph.successors.offsets.push_back(
            static_cast<std::uint32_t>(graph.successors.items.size()));
    }
    return by_key;
}

}  // namespace

IncrementalTimeline::IncrementalTimeline(int resource_count, Csr<std::int32_t> lanes)
    : graph_(resource_count, std::move(lanes)), queues_(graph_) {}

std::optional<Time> IncrementalTimeline::evaluate(std::span<const SlotTask> tasks, Time limit) {
    check_settled();
    graph_.change(tasks);
    ++effort_.evaluations;
    limit_ = limit.raw();
    if (marks_.size() < graph_.slots()) {
        marks_.resize(graph_.slots());
        changed_.resize(graph_.slots(), -1);
    }
    const auto loads = graph_.loads();
    if (std::any_of(loads.begin(), loads.end(), [&](std::int64_t l) { return l > limit_; })) {
        ++effort_.rejected_by_load;
        graph_.undo();
        return std::nullopt;
    }
    find_windows();
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
    for (const Slot slot : graph_.changed()) changed_[at(slot)] = -1;
    graph_.undo();
}

/// Without the timeline before.
void IncrementalTimeline::simulate_whole() {
    ++effort_.whole;
    const Numbered by_key = numbered(graph_);
    const Timeline timeline = simulate(by_key.graph, Scheduler::rank);
    log_.clear();
    for (std::size_t i = 0; i < by_key.slots.size(); ++i) {
        log_.push_back({by_key.slots[i], timeline.start[i].raw()});
    }
    segments_.assign(1, {0, static_cast<std::int32_t>(log_.size()), 0, true});
    new_makespan_ = timeline.makespan.raw();
}

void IncrementalTimeline::accept() {
    if (!pending_) throw std::logic_error("accept: no change is pending");
    pending_ = false;
    makespan_ = new_makespan_;
    for (const Slot slot : graph_.changed()) {
        changed_[at(slot)] = -1;
        marks_[at(slot)].position = -1;
        marks_[at(slot)].end = kNever;
    }
    if (segments_[0].replayed) segments_.insert(segments_.begin(), Segment{});
    const std::int32_t from = segments_[0].end;  // as before up to there
    write_new(from);
    keep(from);
    keep_ends_after();
}

/// Each replayed piece by (start, key).
void IncrementalTimeline::sort_log() {
    if (log_is_sorted_) return;
    log_is_sorted_ = true;
    for (const Segment& segment : segments_) {
        if (!segment.replayed) continue;
        std::sort(log_.begin() + segment.begin, log_.begin() + segment.end,
                  [&](const Started& a, const Started& b) {
                      return a.start != b.start ? a.start < b.start
                                                : graph_[a.slot].key < graph_[b.slot].key;
                  });
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
    sort_log();
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
    free_.resize(blocks * resources);
    done_.resize(blocks * resources);
    least_ready_at_.resize(blocks);
    ends_before_.resize(order_.size());
    ready_at_.resize(order_.size());
    std::vector<std::int64_t>& free = scratch_free_;
    std::vector<std::int64_t>& done = scratch_rest_;
    free.assign(resources, 0);
    done.assign(resources, 0);
    std::int64_t latest = 0;
    if (first > 0) {
        const auto here = static_cast<std::ptrdiff_t>(at(first) * resources);
        std::copy_n(free_.begin() + here, resources, free.begin());
        std::copy_n(done_.begin() + here, resources, done.begin());
        latest = ends_before_[at(std::int64_t{first} * kStride)];
    }
    for (std::int32_t i = first * kStride; i < size(); ++i) {
        const auto block = at(i / kStride);
        if (i % kStride == 0) {
            const auto here = static_cast<std::ptrdiff_t>(block * resources);
            std::copy_n(free.begin(), resources, free_.begin() + here);
            std::copy_n(done.begin(), resources, done_.begin() + here);
            least_ready_at_[block] = i;
        }
        const Slot slot = order_[at(i)];
        const SlotGraph::Node& node = graph_[slot];
        const std::int64_t end = starts_[at(i)] + node.duration;
        for (const std::int32_t r : graph_.resources(node.lane)) {
            free[at(r)] = end;
            done[at(r)] += node.duration;
        }
        ends_before_[at(i)] = latest;
        latest = std::max(latest, end);
        Mark& mark = marks_[at(slot)];
        mark.position = i;
        mark.end = end;
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
