// SPDX-License-Identifier: Apache-2.0
#include "plan/description/communication.h"

#include <gtest/gtest.h>

#include <vector>

#include "plan/evaluation/priced.h"
#include "plan/lowering/lower.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

ProblemOptions step_time() {
    return {.mode = Mode::training, .objective = Objective::step_time};
}

std::vector<Communication> of(const Problem& problem, const Strategy& strategy) {
    return communication_of(problem, price(problem, strategy, Scheduler::pct, Listed::all).tasks);
}

// Each of the devices gives all gradients once; nothing else moves.
TEST(CommunicationOf, DataParallelismIsAnAllReduceOfEachGradient) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(4);
    const Problem problem = make_problem(graph, machine, step_time());
    const auto moved =
        of(problem, search::data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1)));
    ASSERT_EQ(moved.size(), 1U);
    EXPECT_EQ(moved[0].moved, Moved::gradients);
    EXPECT_EQ(moved[0].kind, "all-reduce");
    EXPECT_EQ(moved[0].messages, 2);
    EXPECT_EQ(moved[0].bytes_per_device, Bytes{(16 * 16 + 16 * 4) * 4});
    EXPECT_GT(moved[0].time_per_device, Time{0});
}

TEST(CommunicationOf, ShardedUpdatesScatterGradientsAndGatherParameters) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(4);
    const Problem problem = make_problem(graph, machine, step_time());
    const auto moved =
        of(problem, search::data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1),
                                                   search::ZeroLevel::gradients));
    ASSERT_EQ(moved.size(), 2U);
    for (const Communication& each : moved) {
        EXPECT_EQ(each.kind, each.moved == Moved::gradients ? "reduce-scatter" : "all-gather");
        EXPECT_EQ(each.bytes_per_device, Bytes{(16 * 16 + 16 * 4) * 4});
    }
    EXPECT_NE(moved[0].moved, moved[1].moved);
}

// From stage to stage activations go forth and their gradients back.
TEST(CommunicationOf, StagesSendActivationsAndGradientsOfThem) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(2);
    const Problem problem = make_problem(graph, machine, step_time());
    std::vector<int> devices(graph.op_count(), 0);
    for (const char* op : {"mul2", "w2", "y"}) devices[graph.find_op(op)->index()] = 1;
    const auto moved = of(problem, on_devices(devices));
    ASSERT_EQ(moved.size(), 2U);
    for (const Communication& each : moved) {
        EXPECT_EQ(each.kind, "copy");
        EXPECT_EQ(each.messages, 1);
        EXPECT_EQ(each.bytes_per_device, Bytes{8 * 16 * 4 / 2});  // one of two devices sends it
    }
    EXPECT_TRUE(of(problem, on_devices(std::vector<int>(graph.op_count(), 0))).empty());
}

// What stands for others counts as often.
TEST(CommunicationOf, FoldedTasksIsThatOfAll) {
    const graph::OpGraph graph = equal_layers(4);
    const cost::Machine machine = machine_of_nodes(4, 4);
    const Problem problem = make_problem(graph, machine, step_time());
    const Strategy strategy =
        search::data_parallel_strategy(problem, DeviceSet::progression(0, 16, 1));
    const TaskGraph folded = lower_folded(problem, strategy);
    ASSERT_TRUE(folded.is_folded());
    const auto of_all = communication_of(problem, lower(problem, strategy));
    const auto of_folded = communication_of(problem, folded);
    ASSERT_EQ(of_all.size(), of_folded.size());
    for (std::size_t i = 0; i < of_all.size(); ++i) {
        EXPECT_EQ(of_all[i].messages, of_folded[i].messages);
        EXPECT_EQ(of_all[i].bytes_per_device, of_folded[i].bytes_per_device);
        EXPECT_EQ(of_all[i].time_per_device, of_folded[i].time_per_device);
    }
}

}  // namespace
}  // namespace partita::plan
