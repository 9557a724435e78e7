// SPDX-License-Identifier: Apache-2.0
#include "plan/simulation/simulate.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <tuple>

#include "plan/lowering/lower.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::plan {
namespace {

/// A random task graph: edges to later tasks only, `resource_sets` resource sets over shared
/// resources.
TaskGraph random_task_graph() {
    const int devices = *rc::gen::inRange(1, 5);
    const int tasks = *rc::gen::inRange(0, 60);
    TaskGraph graph;
    graph.device_count = devices;
    graph.resource_count = 3 * devices + 2;
    for (int d = 0; d < devices; ++d) {
        graph.resource_sets.items.push_back(compute_row(d));
        graph.resource_sets.end_row();
    }
    for (int a = 0; a < devices; ++a) {
        for (int b = 0; b < devices; ++b) {
            if (a == b) continue;
            std::vector<std::int32_t> resources{send_row(a), receive_row(b)};
            resources.push_back(3 * devices + (a + b) % 2);
            std::sort(resources.begin(), resources.end());
            graph.resource_sets.add_row(resources);
        }
    }
    const int resource_sets = static_cast<int>(graph.resource_sets.rows());
    const int most_launch = *rc::gen::inRange(0, 6);
    for (int i = 0; most_launch > 0 && i < resource_sets; ++i) {
        const int a = i < devices ? i : (i - devices) / (devices - 1);
        graph.hosts.add_row(std::vector<std::int32_t>{a});
    }
    graph.predecessor_counts.assign(static_cast<std::size_t>(tasks), 0);
    for (int i = 0; i < tasks; ++i) {
        Task task;
        task.resource_set = *rc::gen::inRange(0, resource_sets);
        const bool computes = task.resource_set < devices;
        const bool adds = computes && *rc::gen::inRange(0, 4) == 0;
        task.kind = adds ? TaskKind::accumulate : computes ? TaskKind::forward : TaskKind::copy;
        task.device = task.resource_set < devices ? task.resource_set : 0;
        task.duration = Time(*rc::gen::inRange(0, 6));  // small: many ties
        task.launch = Time(*rc::gen::inRange(0, most_launch + 1));
        task.schedule_key = *rc::gen::inRange(-1, 3);
        graph.tasks.push_back(task);
        const int first = *rc::gen::inRange(i + 1, i + 12);
        for (int next = first; next < tasks; next += *rc::gen::inRange(1, 15)) {
            graph.successors.items.emplace_back(static_cast<std::size_t>(next));
            ++graph.predecessor_counts[static_cast<std::size_t>(next)];
        }
        graph.successors.end_row();
    }
    return graph;
}

/// The scheduling rule word for word, in O(tasks^2): scan all ready tasks, commit the smallest.
Timeline literal_simulation(const TaskGraph& graph, Scheduler scheduler) {
    std::vector<Time> path = path_to_sink(graph);
    for (std::size_t i = 0; i < graph.size(); ++i) {
        for (const TaskId next : graph.successors[i]) {
            const std::size_t n = next.index();
            if (graph.tasks[n].kind == TaskKind::accumulate) path[n] = std::max(path[n], path[i]);
        }
    }
    std::vector<std::int32_t> waiting = graph.predecessor_counts;
    std::vector<std::int64_t> ready(graph.size(), 0);
    std::vector<std::int64_t> free(static_cast<std::size_t>(graph.resource_count), 0);
    std::vector<std::int64_t> launched(static_cast<std::size_t>(graph.device_count), 0);
    std::vector<char> done(graph.size(), 0);
    Timeline timeline;
    timeline.start.resize(graph.size());
    for (std::size_t round = 0; round < graph.size(); ++round) {
        std::tuple<std::int64_t, std::int32_t, std::int64_t, std::size_t> best{
            std::numeric_limits<std::int64_t>::max(), 0, 0, 0};
        for (std::size_t i = 0; i < graph.size(); ++i) {
            if (done[i] != 0 || waiting[i] != 0) continue;
            std::int64_t start = ready[i];
            for (const auto r :
                 graph.resource_sets[static_cast<std::size_t>(graph.tasks[i].resource_set)]) {
                start = std::max(start, free[static_cast<std::size_t>(r)]);
            }
            for (const auto d :
                 graph.hosts_of(static_cast<std::size_t>(graph.tasks[i].resource_set)))
                start = std::max(start, launched[static_cast<std::size_t>(d)]);
            const std::int64_t key = scheduler == Scheduler::fifo ? ready[i] : -path[i].raw();
            best = std::min(best, {start, graph.tasks[i].schedule_key, key, i});
        }
        const auto [start, schedule_key, key, id] = best;
        const std::int64_t end = start + graph.tasks[id].duration.raw();
        for (const auto r :
             graph.resource_sets[static_cast<std::size_t>(graph.tasks[id].resource_set)]) {
            free[static_cast<std::size_t>(r)] = end;
        }
        for (const auto d : graph.hosts_of(static_cast<std::size_t>(graph.tasks[id].resource_set)))
            launched[static_cast<std::size_t>(d)] += graph.tasks[id].launch.raw();
        for (const TaskId next : graph.successors[id]) {
            const std::size_t n = next.index();
            ready[n] = std::max(ready[n], end);
            --waiting[n];
        }
        done[id] = 1;
        timeline.start[id] = Time(start);
        timeline.commit_order.emplace_back(id);
    }
    return timeline;
}

TEST(Simulate, EmptyGraphTakesNoTime) {
    const TaskGraph graph;
    EXPECT_EQ(simulate(graph, Scheduler::pct).makespan, Time{0});
}

// gpu0  | a: 2 |          | d: 1 |          copies take 1 us each
// gpu1         >| c: 4      |>              d waits for c's copy: 2 + 1 + 4 + 1 + 1 = 9
TEST(Simulate, CopiesTakeTheirTimeBetweenDevices) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 2)
                                     .node("b", 3, {"a"})
                                     .node("c", 4, {"a"})
                                     .node("d", 1, {"b", "c"})
                                     .build();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices({0, 0, 1, 0}));
    const Timeline timeline = simulate(tasks, Scheduler::pct);
    EXPECT_EQ(timeline.makespan, microseconds(9));
    EXPECT_EQ(timeline.busy, (std::vector{microseconds(6), microseconds(4)}));
}

// Both long and short become ready at 1. FIFO takes the lower id, PCT the one that unlocks more.
//     fifo  | a | short: 5 | long: 1 | tail (gpu1) after its copy ...
//     pct   | a | long: 1 | short: 5 |
TEST(Simulate, PctPrefersTheLongerPath) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 1)
                                     .node("short", 5, {"a"})
                                     .node("long", 1, {"a"})
                                     .node("tail", 9, {"long"})
                                     .build();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices({0, 0, 0, 1}));
    EXPECT_EQ(simulate(tasks, Scheduler::fifo).makespan, microseconds(1 + 5 + 1 + 1 + 9));
    EXPECT_EQ(simulate(tasks, Scheduler::pct).makespan, microseconds(1 + 1 + 1 + 9));
}

// What each micro-batch adds to a weight's gradient follows what it comes from at once, while other
// backwards with longer paths wait: otherwise the contributions of all weights would be there
// together.
TEST(Simulate, GradientsOfMicroBatchesAreAddedUpAtOnce) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = switched_machine(1);
    ProblemOptions options;
    options.mode = Mode::training;
    options.policy.micro_batches = 4;
    for (const ScheduleKind schedule : {ScheduleKind::none, ScheduleKind::one_f_one_b}) {
        options.policy.schedule = {.kind = schedule};
        const Problem problem = make_problem(graph, machine, options);
        for (const bool locally : {true, false}) {
            Strategy strategy = whole_ops(std::vector<int>(graph.op_count(), 0), problem.policy());
            for (std::size_t i = 0; i < graph.op_count(); ++i) {
                const bool parameter = graph.ops()[i].kind == graph::OpKind::parameter;
                strategy.ops[i].update.accumulate_locally = parameter && locally;
            }
            const TaskGraph tasks = lower(problem, strategy);
            for (const Scheduler scheduler : {Scheduler::pct, Scheduler::rank}) {
                const std::vector<TaskId> order = simulate(tasks, scheduler).commit_order;
                int sums = 0;
                for (std::size_t i = 1; i < order.size(); ++i) {
                    const Task& task = tasks.tasks[order[i].index()];
                    if (task.kind != TaskKind::accumulate) continue;
                    ++sums;
                    const Task& before = tasks.tasks[order[i - 1].index()];
                    const graph::TensorId weight = graph.op(before.op).inputs[1];
                    EXPECT_EQ(before.kind, TaskKind::backward);
                    EXPECT_EQ(before.micro_batch, task.micro_batch);
                    EXPECT_EQ(weight, task.tensor);
                }
                EXPECT_EQ(sums, 6 * 3);
            }
        }
    }
}

// Two ready tasks on gpu0 with equal paths: `two` unlocks a copy, `one` nothing but itself, and
// the path of `one` is longer. MSR prefers the unlocking task, PCT the longer path.
TEST(Simulate, MsrPrefersTheTaskThatUnlocksIdleDevices) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("one", 9).node("two", 2).node("three", 3, {"two"}).build();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices({0, 0, 1}));
    EXPECT_EQ(simulate(tasks, Scheduler::msr).commit_order.front(), TaskId(1U));
    EXPECT_EQ(simulate(tasks, Scheduler::pct).commit_order.front(), TaskId(0U));
}

// Two copies leave gpu0 for different devices at the same time: they share its send row.
TEST(Simulate, SharingALinkMeansWaiting) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 1, {}, 4).node("b", 1, {"a"}).node("c", 1, {"a"}).build();
    const cost::Machine machine = switched_machine(3);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices({0, 1, 2}));
    EXPECT_EQ(simulate(tasks, Scheduler::pct).makespan, microseconds(1 + 4 + 4 + 1));
}

RC_GTEST_PROP(Simulate, EqualsTheLiteralRule, ()) {
    const TaskGraph graph = random_task_graph();
    const Scheduler scheduler = *rc::gen::element(Scheduler::fifo, Scheduler::pct);
    const Timeline fast = simulate(graph, scheduler);
    const Timeline literal = literal_simulation(graph, scheduler);
    RC_ASSERT(fast.commit_order == literal.commit_order);
    RC_ASSERT(fast.start == literal.start);
}

RC_GTEST_PROP(Simulate, CommitsHaveMonotoneStarts, ()) {
    const TaskGraph graph = random_task_graph();
    const Scheduler scheduler = *rc::gen::element(Scheduler::fifo, Scheduler::pct, Scheduler::msr);
    const Timeline timeline = simulate(graph, scheduler);
    RC_ASSERT(timeline.commit_order.size() == graph.size());
    Time last;
    for (const TaskId id : timeline.commit_order) {
        const Time start = timeline.start[id.index()];
        RC_ASSERT(start >= last);
        last = start;
    }
}

RC_GTEST_PROP(Simulate, ReplayOfItsOrderIsTheSameTimeline, ()) {
    const TaskGraph graph = random_task_graph();
    const Scheduler scheduler = *rc::gen::element(Scheduler::fifo, Scheduler::pct, Scheduler::msr);
    const Timeline timeline = simulate(graph, scheduler);
    const auto again = replay(graph, timeline.commit_order);
    RC_ASSERT(again.has_value());
    RC_ASSERT(again->start == timeline.start);
    RC_ASSERT(again->makespan == timeline.makespan);
    RC_ASSERT(again->busy == timeline.busy);
}

RC_GTEST_PROP(Simulate, WithTheOrderFixedFasterTasksNeverLengthenTheMakespan, ()) {
    TaskGraph graph = random_task_graph();
    RC_PRE(graph.size() > 0U);
    const Timeline before = simulate(graph, Scheduler::pct);
    const auto sped_up = *rc::gen::inRange<std::size_t>(0, graph.size());
    graph.tasks[sped_up].duration = Time{0};
    const auto after = replay(graph, before.commit_order);
    RC_ASSERT(after->makespan <= before.makespan);
}

TEST(Replay, RefusesWhatIsNoOrder) {
    const graph::OpGraph graph = WorkloadBuilder().node("a", 1).node("b", 1, {"a"}).build();
    const cost::Machine machine = switched_machine(1);
    const Problem problem = make_problem(graph, machine);
    const TaskGraph tasks = lower(problem, on_devices({0, 0}));
    const TaskId a(0U);
    const TaskId b(1U);
    EXPECT_TRUE(replay(tasks, {a, b}).has_value());
    EXPECT_FALSE(replay(tasks, {b, a}).has_value()) << "before its predecessor";
    EXPECT_FALSE(replay(tasks, {a, a}).has_value()) << "twice";
    EXPECT_FALSE(replay(tasks, {a}).has_value()) << "one is missing";
    EXPECT_FALSE(replay(tasks, {a, TaskId(2U)}).has_value()) << "no such task";
    EXPECT_FALSE(replay(tasks, {a, TaskId()}).has_value()) << "no such task";
}

}  // namespace
}  // namespace partita::plan
