// SPDX-License-Identifier: Apache-2.0
#include "plan/simulation/simulate.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <stdexcept>
#include <tuple>

#include "base/min_heap.h"
#include "plan/tasks/distinct_resources.h"

namespace partita::plan {

std::string_view name_of(Scheduler scheduler) {
    switch (scheduler) {
    case Scheduler::fifo: return "fifo";
    case Scheduler::rank: return "rank";
    case Scheduler::pct: return "pct";
    case Scheduler::msr: return "msr";
    }
    return {};
}

std::optional<Scheduler> scheduler_from_name(std::string_view name) {
    for (const Scheduler s : {Scheduler::fifo, Scheduler::rank, Scheduler::pct, Scheduler::msr}) {
        if (name_of(s) == name) return s;
    }
    return std::nullopt;
}

namespace {

/// A ready task. Smaller = earlier: by schedule key, `key` (ready time, or minus the path to
/// the sink), then id.
struct Ready {
    std::int32_t schedule_key;
    std::int64_t key;
    TaskId id;
    friend auto operator<=>(const Ready&, const Ready&) = default;
};

/// A task that is ready at a later time than its queue is free.
struct Future {
    std::int64_t ready;
    std::int32_t schedule_key;
    std::int64_t key;
    TaskId id;
    friend auto operator<=>(const Future&, const Future&) = default;
};

struct Queue {
    std::vector<Ready> ready;    ///< can start as soon as the queue is free
    std::vector<Future> future;  ///< become ready later than that
    std::uint32_t version = 0;   ///< of its newest entry among the candidates
};

/// The first task of a queue, as it stood when it was pushed.
struct Candidate {
    std::int64_t start;
    std::int32_t schedule_key;
    std::int64_t key;
    TaskId id;
    std::int32_t queue;
    std::uint32_t version;
    friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

class Simulation {
public:
    Simulation(const TaskGraph& graph, Scheduler scheduler)
        : graph_(graph),
          distinct_(graph),
          scheduler_(scheduler),
          waiting_(graph.predecessor_counts),
          ready_time_(graph.size(), 0),
          free_(static_cast<std::size_t>(graph.resource_count), 0),
          launched_(static_cast<std::size_t>(graph.device_count), 0),
          queues_(graph.resource_sets.rows()) {
        if (needs_paths()) path_ = path_to_sink(graph);
    }

    Timeline run() {
        timeline_.start.resize(graph_.size());
        timeline_.commit_order.reserve(graph_.size());
        for (std::size_t i = 0; i < graph_.size(); ++i) {
            if (waiting_[i] == 0) enqueue(TaskId(i));
        }
        for (std::size_t queue = 0; queue < queues_.size(); ++queue) refresh(queue);
        while (!candidates_.empty()) {
            const Candidate first = pop_min(candidates_);
            const auto queue = static_cast<std::size_t>(first.queue);
            if (first.version != queues_[queue].version) continue;
            const Candidate now = candidate_of(queue);
            if (now == first) {
                commit(queue, now);
            } else {
                push_min(candidates_, now);
            }
        }
        if (timeline_.commit_order.size() != graph_.size()) {
            throw std::logic_error("simulate: the task graph has a cycle");
        }
        return std::move(timeline_);
    }

private:
    [[nodiscard]] std::int64_t queue_free(std::size_t queue) const {
        std::int64_t free = 0;
        for (const std::int32_t r : distinct_.resources[queue]) {
            free = std::max(free, free_[static_cast<std::size_t>(r)]);
        }
        for (const std::int32_t device : distinct_.hosts[queue]) {
            free = std::max(free, launched_[static_cast<std::size_t>(device)]);
        }
        return free;
    }

    [[nodiscard]] bool needs_paths() const {
        return scheduler_ == Scheduler::pct || scheduler_ == Scheduler::msr;
    }

    [[nodiscard]] std::int64_t key_of(std::size_t i) const {
        if (needs_paths()) return -path_[i].raw();
        return scheduler_ == Scheduler::rank ? graph_.tasks[i].priority : ready_time_[i];
    }

    /// Puts a task whose predecessors are all committed into its queue.
    void enqueue(TaskId id) {
        const std::size_t i = id.index();
        push_min(queues_[static_cast<std::size_t>(graph_.tasks[i].resource_set)].future,
                 Future{ready_time_[i], graph_.tasks[i].schedule_key, key_of(i), id});
    }

    /// The best task of a queue now, which must not be empty.
    Candidate candidate_of(std::size_t at) {
        Queue& queue = queues_[at];
        const std::int64_t free = queue_free(at);
        while (!queue.future.empty() && queue.future.front().ready <= free) {
            const Future task = pop_min(queue.future);
            push_min(queue.ready, Ready{task.schedule_key, task.key, task.id});
        }
        const auto number = static_cast<std::int32_t>(at);
        if (!queue.ready.empty()) {
            const Ready& first = queue.ready.front();
            return {free, first.schedule_key, first.key, first.id, number, queue.version};
        }
        const Future& next = queue.future.front();
        return {next.ready, next.schedule_key, next.key, next.id, number, queue.version};
    }

    /// Makes a queue's entry among the candidates current, after a commit or a new task.
    void refresh(std::size_t at) {
        Queue& queue = queues_[at];
        ++queue.version;
        if (!queue.ready.empty() || !queue.future.empty()) push_min(candidates_, candidate_of(at));
    }

    void commit(std::size_t at, const Candidate& candidate) {
        Queue& queue = queues_[at];
        TaskId id = candidate.id;
        if (queue.ready.empty()) {
            pop_min(queue.future);
        } else if (scheduler_ == Scheduler::msr) {
            id = take_most_unlocking(queue, candidate.start);
        } else {
            pop_min(queue.ready);
        }
        const Task& task = graph_.tasks[id.index()];
        const std::int64_t end = candidate.start + task.duration.raw();
        for (const std::int32_t r : distinct_.resources[at])
            free_[static_cast<std::size_t>(r)] = end;
        for (const std::int32_t device : distinct_.hosts[at])
            launched_[static_cast<std::size_t>(device)] += task.launch.raw();
        timeline_.start[id.index()] = Time(candidate.start);
        timeline_.commit_order.push_back(id);
        touched_.assign(1, at);
        for (const TaskId next : graph_.successors[id.index()]) {
            const std::size_t i = next.index();
            ready_time_[i] = std::max(ready_time_[i], end);
            const bool inherits = needs_paths() && graph_.tasks[i].kind == TaskKind::accumulate;
            if (inherits) path_[i] = std::max(path_[i], path_[id.index()]);
            if (--waiting_[i] != 0) continue;
            enqueue(next);
            touched_.push_back(static_cast<std::size_t>(graph_.tasks[i].resource_set));
        }
        for (const std::size_t queue_at : touched_) refresh(queue_at);
    }

    /// MSR: of the ready tasks of a queue, and of its earliest schedule key, the one with most
    /// successors that need nothing else and whose own queue idles at `now`; ties by path to the
    /// sink, then id.
    TaskId take_most_unlocking(Queue& queue, std::int64_t now) {
        const auto unlocked = [&](const Ready& task) {
            std::int64_t count = 0;
            for (const TaskId next : graph_.successors[task.id.index()]) {
                const std::size_t i = next.index();
                if (waiting_[i] != 1) continue;
                if (queue_free(static_cast<std::size_t>(graph_.tasks[i].resource_set)) <= now)
                    ++count;
            }
            return count;
        };
        auto best = queue.ready.begin();
        const std::int32_t schedule_key = best->schedule_key;
        std::int64_t best_count = unlocked(*best);
        for (auto it = queue.ready.begin() + 1; it != queue.ready.end(); ++it) {
            if (it->schedule_key != schedule_key) continue;
            const std::int64_t count = unlocked(*it);
            if (count > best_count || (count == best_count && *it < *best)) {
                best = it;
                best_count = count;
            }
        }
        const TaskId id = best->id;
        *best = queue.ready.back();
        queue.ready.pop_back();
        std::make_heap(queue.ready.begin(), queue.ready.end(), std::greater<>{});
        return id;
    }

    const TaskGraph& graph_;
    DistinctResources distinct_;
    Scheduler scheduler_;
    std::vector<Time> path_;
    std::vector<std::int32_t> waiting_;
    std::vector<std::int64_t> ready_time_;
    std::vector<std::int64_t> free_;      ///< per resource
    std::vector<std::int64_t> launched_;  ///< per device: what was committed, from this time on
    std::vector<Queue> queues_;
    std::vector<Candidate> candidates_;
    std::vector<std::size_t> touched_;
    Timeline timeline_;
};

/// Makespan and busy times from starts.
void summarise(const TaskGraph& graph, Timeline& timeline) {
    timeline.busy.assign(static_cast<std::size_t>(graph.device_count), Time{0});
    for (std::size_t i = 0; i < graph.size(); ++i) {
        const Task& task = graph.tasks[i];
        timeline.makespan = std::max(timeline.makespan, timeline.start[i] + task.duration);
        if (is_communication(task)) continue;
        timeline.busy[static_cast<std::size_t>(task.device)] += task.duration;
    }
    unfold(graph, timeline.busy);
}

}  // namespace

std::vector<Time> path_to_sink(const TaskGraph& graph) {
    std::vector<Time> path(graph.size());
    const std::vector<TaskId> order = topological_order(graph);
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
        const std::size_t i = it->index();
        std::int64_t longest = 0;
        for (const TaskId next : graph.successors[i]) {
            longest = std::max(longest, path[next.index()].raw());
        }
        path[i] = Time(longest + graph.tasks[i].duration.raw());
    }
    return path;
}

Timeline simulate(const TaskGraph& graph, Scheduler scheduler) {
    Timeline timeline = Simulation(graph, scheduler).run();
    summarise(graph, timeline);
    return timeline;
}

std::optional<Timeline> replay(const TaskGraph& graph, const std::vector<TaskId>& order) {
    if (order.size() != graph.size()) return std::nullopt;
    std::vector<std::int32_t> waiting = graph.predecessor_counts;
    std::vector<std::int64_t> ready(graph.size(), 0);
    std::vector<std::int64_t> free(static_cast<std::size_t>(graph.resource_count), 0);
    std::vector<std::int64_t> launched(static_cast<std::size_t>(graph.device_count), 0);
    const DistinctResources distinct(graph);
    Timeline timeline;
    timeline.start.resize(graph.size());
    for (const TaskId id : order) {
        const std::size_t i = id.index();
        // A repeated task has -1 here, one before its predecessors more than 0.
        if (i >= graph.size() || waiting[i] != 0) return std::nullopt;
        waiting[i] = -1;
        const auto set = static_cast<std::size_t>(graph.tasks[i].resource_set);
        const auto resources = distinct.resources[set];
        std::int64_t start = ready[i];
        for (const std::int32_t r : resources) {
            start = std::max(start, free[static_cast<std::size_t>(r)]);
        }
        for (const std::int32_t device : distinct.hosts[set]) {
            std::int64_t& by = launched[static_cast<std::size_t>(device)];
            start = std::max(start, by);
            by += graph.tasks[i].launch.raw();
        }
        const std::int64_t end = start + graph.tasks[i].duration.raw();
        for (const std::int32_t r : resources) free[static_cast<std::size_t>(r)] = end;
        for (const TaskId next : graph.successors[i]) {
            const std::size_t n = next.index();
            ready[n] = std::max(ready[n], end);
            --waiting[n];
        }
        timeline.start[i] = Time(start);
    }
    timeline.commit_order = order;
    summarise(graph, timeline);
    return timeline;
}

}  // namespace partita::plan
