// SPDX-License-Identifier: Apache-2.0
//
// Clipping by the norm of all gradients: who waits for whom, for how long, and what memory it takes.
// That the norm is right whatever the plan: semantics_test.cpp.
#include "plan/lowering/gradient_clipping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "tests/plan/layers.h"

namespace partita::plan {
namespace {

using testing::ElementsAre;

class ClippedLayers : public LayersTest {
protected:
    ProblemOptions options(double clip_norm) {
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.clip_norm = clip_norm;
        return options;
    }
    Strategy data_parallel() {
        return strategy({{"x", {{"d0", 4}}},
                         {"mul1", {{"m", 4}}},
                         {"mul2", {{"m", 4}}},
                         {"w1", {{"*", 4}}},
                         {"w2", {{"*", 4}}},
                         {"y", {{"d0", 4}}}});
    }
    Strategy zero() {
        Strategy strategy = data_parallel();
        for (const char* const name : {"w1", "w2"}) {
            const graph::OpId op = *graph_.find_op(name);
            strategy.ops[op.index()].update.update = {axes_named(graph_, op, {{"d0", 4}}),
                                                      DeviceSet::progression(0, kDevices, 1)};
        }
        return strategy;
    }
    Bytes gradients() const { return Bytes(4 * (kIn * kIn + kIn * kOut)); }
};

std::optional<TaskId> clip_of(const TaskGraph& tasks) {
    std::optional<TaskId> found;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        if (tasks.tasks[t].kind != TaskKind::clip) continue;
        EXPECT_FALSE(found) << "two of them";
        found = TaskId(t);
    }
    return found;
}

TEST_F(ClippedLayers, AllUpdatesWaitForOneTaskThatWaitsForAllGradients) {
    build({kIn, kIn, kOut});
    const Problem problem = make_problem(graph_, machine_, options(1));
    for (const Strategy& strategy : {data_parallel(), zero()}) {
        const TaskGraph tasks = lower(problem, strategy);
        const auto clip = clip_of(tasks);
        ASSERT_TRUE(clip);
        const Task& task = tasks.tasks[clip->index()];
        EXPECT_EQ(task_name(problem, task), "clip gradients");
        EXPECT_THAT(tasks.ranks[static_cast<std::size_t>(task.ranks)], ElementsAre(0, 1, 2, 3));
        // They would be held until somebody else communicates (peak_memory.h).
        EXPECT_TRUE(tasks.reads[clip->index()].empty());
        int updates = 0;
        for (const TaskId after : tasks.successors[clip->index()]) {
            EXPECT_EQ(tasks.tasks[after.index()].kind, TaskKind::update);
            ++updates;
        }
        EXPECT_EQ(updates, std::ranges::count(tasks.tasks, TaskKind::update, &Task::kind));
        EXPECT_EQ(updates, 8);
        const Timeline timeline = simulate(tasks, Scheduler::rank);
        for (std::size_t t = 0; t < tasks.size(); ++t) {
            if (tasks.tasks[t].kind != TaskKind::collective || !tasks.tasks[t].gradient) continue;
            EXPECT_LE(timeline.start[t] + tasks.tasks[t].duration, timeline.start[clip->index()]);
        }
    }
}

TEST_F(ClippedLayers, TakesReadingTheMostGradientsOfADeviceAndOneNumberToAll) {
    build({kIn, kIn, kOut});
    const Problem problem = make_problem(graph_, machine_, options(1));
    const std::vector<int> all{0, 1, 2, 3};
    const cost::CollectivePrice sum = problem.transfers().collective_price(
        {.kind = cost::Collective::all_reduce, .devices = all, .bytes = Bytes(4)});
    const auto duration = [&](const Strategy& strategy) {
        const TaskGraph tasks = lower(problem, strategy);
        return tasks.tasks[clip_of(tasks).value().index()].duration;
    };
    EXPECT_EQ(duration(data_parallel()),
              problem.prices().norm_price(gradients(), 0).time + sum.time);
    const Bytes quarter(gradients().raw() / 4);
    EXPECT_EQ(duration(zero()), problem.prices().norm_price(quarter, 0).time + sum.time);
}

TEST_F(ClippedLayers, IsWorkOfTheDeviceWhereThereIsOne) {
    build({kIn, kIn, kOut});
    const Problem problem = make_problem(graph_, machine_, options(1));
    const TaskGraph tasks = lower(problem, on_devices(std::vector<int>(graph_.op_count(), 2)));
    const Task& task = tasks.tasks[clip_of(tasks).value().index()];
    EXPECT_EQ(task.device, 2);
    EXPECT_EQ(task.ranks, -1);
    EXPECT_EQ(task.duration, problem.prices().norm_price(gradients(), 2).time);
    EXPECT_THAT(tasks.resource_sets[static_cast<std::size_t>(task.resource_set)],
                ElementsAre(compute_row(2)));
}

TEST_F(ClippedLayers, LeavesOutWhatIsNotTrained) {
    build({kIn, kIn, kOut});
    ProblemOptions frozen = options(1);
    frozen.policy.frozen = {"w2"};
    const Problem problem = make_problem(graph_, machine_, frozen);
    const TaskGraph tasks = lower(problem, on_devices(std::vector<int>(graph_.op_count(), 0)));
    EXPECT_EQ(tasks.tasks[clip_of(tasks).value().index()].duration,
              problem.prices().norm_price(Bytes(4 * kIn * kIn), 0).time);
}

TEST_F(ClippedLayers, IsNotThereUnasked) {
    build({kIn, kIn, kOut});
    const Problem problem = make_problem(graph_, machine_, options(0));
    EXPECT_FALSE(clip_of(lower(problem, data_parallel())));
    ProblemOptions inference;
    inference.policy.clip_norm = 1;
    const Problem forward = make_problem(graph_, machine_, inference);
    EXPECT_FALSE(clip_of(lower(forward, data_parallel())));
}

}  // namespace
}  // namespace partita::plan
