// SPDX-License-Identifier: Apache-2.0
//
// What an iteration waits for adds up to how long it takes, on the critical path and on each device.
#include "plan/description/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using testing::UnorderedElementsAre;

Time sum_of(const std::vector<TimeOf>& parts) {
    Time sum;
    for (const TimeOf& part : parts) sum += part.time;
    return sum;
}

std::vector<std::string> names_of(const std::vector<TimeOf>& parts) {
    std::vector<std::string> names;
    for (const TimeOf& part : parts) names.push_back(part.what);
    return names;
}

Time time_of(const std::vector<TimeOf>& parts, const std::string& what) {
    const auto found = std::ranges::find(parts, what, &TimeOf::what);
    return found == parts.end() ? Time{0} : found->time;
}

ProblemOptions training_step() {
    return {.mode = Mode::training, .objective = Objective::step_time};
}

// x w1 mul1 relu w2 mul2 y, forth on one device and then on the other, and back.
TEST(Bottleneck, OfTwoStagesIsEverythingInTurn) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, training_step());
    std::vector<int> devices(graph.op_count(), 0);
    for (const char* op : {"w2", "mul2", "y"}) devices[graph.find_op(op)->index()] = 1;
    const TaskGraph tasks = lower(problem, on_devices(devices));
    const Timeline timeline = simulate(tasks, Scheduler::pct);
    const Bottleneck bottleneck = bottleneck_of(problem, tasks, timeline);
    EXPECT_EQ(sum_of(bottleneck.critical_path), timeline.makespan);
    EXPECT_THAT(names_of(bottleneck.critical_path),
                UnorderedElementsAre("forward MatMul", "forward Relu", "backward MatMul",
                                     "backward Relu", "update", "loss Output",
                                     "copy of activations", "copy of gradients of activations"));
    // Both wait for the other one, and for the copies.
    EXPECT_EQ(bottleneck.devices[0].what, "computing");
    EXPECT_EQ(2 * bottleneck.devices[0].time, timeline.busy[0] + timeline.busy[1]);
    EXPECT_GT(time_of(bottleneck.devices, "work of other devices"), Time{0});
    EXPECT_GT(time_of(bottleneck.devices, "copy of activations"), Time{0});
}

// Of one device all is its own work.
TEST(Bottleneck, OfOneDeviceIsItsWork) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    const Problem problem = make_problem(graph, machine, training_step());
    const TaskGraph tasks = lower(problem, on_devices(std::vector<int>(graph.op_count(), 0)));
    const Timeline timeline = simulate(tasks, Scheduler::pct);
    const Bottleneck bottleneck = bottleneck_of(problem, tasks, timeline);
    ASSERT_EQ(bottleneck.devices.size(), 1U);
    EXPECT_EQ(bottleneck.devices[0].time, timeline.makespan);
    Time of_ops;
    for (const Time time : bottleneck.on_path) of_ops += time;
    EXPECT_EQ(of_ops, timeline.makespan);
    const graph::OpId product = *graph.find_op("mul1");
    EXPECT_EQ(bottleneck.on_path[product.index()], problem.prices().total_time(product, 0));
}

// A host that launches slowly is what everything waits for.
TEST(Bottleneck, SlowHostsAreNamed) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(1);
    ProblemOptions options = training_step();
    options.policy.host_time = {.kernel = milliseconds(1), .communication = {}, .update = {}};
    const Problem problem = make_problem(graph, machine, options);
    Strategy strategy = on_devices(std::vector<int>(graph.op_count(), 0));
    strategy.policy = options.policy;
    const TaskGraph tasks = lower(problem, strategy);
    const Timeline timeline = simulate(tasks, Scheduler::pct);
    const Bottleneck bottleneck = bottleneck_of(problem, tasks, timeline);
    EXPECT_EQ(bottleneck.critical_path[0].what, "launching kernels");
    EXPECT_GT(2 * time_of(bottleneck.devices, "launching kernels"), timeline.makespan);
}

TEST(Bottleneck, OfAllDevicesAddsUpToTheMakespan) {
    search::Random random(11);
    int looked_at = 0;
    for (int i = 0; i < support::draws(300); ++i) {
        const graph::OpGraph graph =
            random_network(random, 1 + static_cast<int>(random.below(6)), Layers::samples_apart);
        const cost::Machine machine = random_machine(random, 6);
        ProblemOptions options = training_step();
        options.policy.host_time = random_host_time(random);
        const Problem problem = make_problem(graph, machine, options);
        Strategy strategy = random_strategy(random, problem, 1);
        strategy.policy = options.policy;
        if (find_fault(problem, strategy)) continue;
        SCOPED_TRACE(text_of(problem, strategy));
        ++looked_at;
        const TaskGraph tasks = lower(problem, strategy);
        const Timeline timeline = simulate(tasks, Scheduler::pct);
        const Bottleneck bottleneck = bottleneck_of(problem, tasks, timeline);
        ASSERT_EQ(sum_of(bottleneck.critical_path), timeline.makespan);
        // Each part is rounded down.
        const Time sum = sum_of(bottleneck.devices);
        ASSERT_LE(sum, timeline.makespan);
        ASSERT_LE(timeline.makespan - sum,
                  picoseconds(static_cast<std::int64_t>(bottleneck.devices.size())));
        // Idle time is not more than what a device does not compute.
        const Time computing = time_of(bottleneck.devices, "computing");
        ASSERT_GT(computing, Time{0});
    }
    EXPECT_GT(looked_at, support::draws(300) / 2);
}

TEST(Bottleneck, OfFoldedTasksIsThatOfAll) {
    const graph::OpGraph graph = equal_layers(4);
    const cost::Machine machine = machine_of_nodes(4, 4);
    const Problem problem = make_problem(graph, machine, training_step());
    const Strategy strategy =
        search::data_parallel_strategy(problem, DeviceSet::progression(0, 16, 1));
    const TaskGraph folded = lower_folded(problem, strategy);
    ASSERT_TRUE(folded.is_folded());
    const TaskGraph whole = lower(problem, strategy);
    const Timeline timeline = simulate(folded, Scheduler::rank);
    const Bottleneck of_folded = bottleneck_of(problem, folded, timeline);
    const Bottleneck of_all = bottleneck_of(problem, whole, simulate(whole, Scheduler::rank));
    EXPECT_EQ(sum_of(of_folded.critical_path), timeline.makespan);
    ASSERT_EQ(names_of(of_folded.devices), names_of(of_all.devices));
    for (std::size_t i = 0; i < of_all.devices.size(); ++i) {
        EXPECT_EQ(of_folded.devices[i].time, of_all.devices[i].time);
    }
}

}  // namespace
}  // namespace partita::plan
