// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/data_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/lowering/lower.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::DeviceSet;
using plan::Problem;

class DataParallelOfTwoLayers : public testing::Test {
protected:
    DataParallelOfTwoLayers() : graph_(plan::two_layers()), machine_(plan::switched_machine(4)) {}

    Problem training(plan::GradientSync sync = plan::GradientSync::all_reduce) {
        plan::ProblemOptions options;
        options.mode = plan::Mode::training;
        options.objective = plan::Objective::step_time;
        options.policy.gradient_sync = sync;
        return plan::make_problem(graph_, machine_, options);
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
};

TEST_F(DataParallelOfTwoLayers, SplitsTheBatchAndRepeatsParameters) {
    const Problem problem = training();
    const plan::Strategy strategy =
        data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
    const auto axes = [&](const char* op) {
        const graph::OpId id = *graph_.find_op(op);
        return plan::names_of(problem.facts().rule(id), strategy.config(id).axes);
    };
    EXPECT_EQ(axes("x").front().factor, "d0");
    EXPECT_EQ(axes("w1").front().factor, "*");
    EXPECT_EQ(axes("mul1").front().degree, 4);
}

TEST_F(DataParallelOfTwoLayers, TriesAllDevicesAndHalvesOfThem) {
    const Problem problem = training();
    EXPECT_THAT(
        data_parallel_devices(problem),
        testing::ElementsAre(DeviceSet::progression(0, 4, 1), DeviceSet::progression(0, 2, 1)));
}

TEST_F(DataParallelOfTwoLayers, AParameterServerKeepsEachParameterOnce) {
    const Problem problem = training(plan::GradientSync::parameter_server);
    const plan::Strategy strategy =
        data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
    // The larger, w1, first.
    EXPECT_EQ(strategy.config(*graph_.find_op("w1")).devices, DeviceSet::single(0));
    EXPECT_EQ(strategy.config(*graph_.find_op("w2")).devices, DeviceSet::single(1));
}

// A mask for each sample, made of what no input reaches: whole, it would lie on every device for all.
TEST(DataParallel, SplitsWhatIsReadPerSampleWhereSamplesLieTogether) {
    graph::OpGraph graph;
    const auto x = plan::add_source(graph, "x", graph::TensorRole::input, {8, 16});
    const auto constant = plan::add_source(graph, "c", graph::TensorRole::constant, {8, 16});
    const auto mask = plan::add_compute(graph, "mask", "Neg", {constant}, {8, 16});
    graph.add_output("y", plan::add_compute(graph, "sum", "Add", {x, mask}, {8, 16}));
    const cost::Machine machine = plan::switched_machine(4);
    for (const int micro_batches : {1, 2}) {
        plan::ProblemOptions options;
        options.policy.micro_batches = micro_batches;
        const Problem problem = plan::make_problem(graph, machine, options);
        const plan::Strategy strategy =
            data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
        const graph::OpId id = *graph.find_op("mask");
        const auto axes = plan::names_of(problem.facts().rule(id), strategy.config(id).axes);
        ASSERT_EQ(axes.size(), 1U);
        EXPECT_EQ(axes.front().factor, micro_batches == 1 ? "d0" : "*");
        EXPECT_EQ(axes.front().degree, 4);
    }
}

TEST(DataParallel, ShardsParametersWhereRepeatingThemDoesNotFit) {
    const graph::OpGraph graph = support::chain_network(16);
    const cost::Machine machine = plan::switched_machine(4);
    plan::ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    options.constraints.memory_limit = Bytes{16'000};
    const Problem problem = plan::make_problem(graph, machine, options);
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    const DeviceSet all = DeviceSet::progression(0, 4, 1);
    EXPECT_FALSE(evaluator->evaluate(data_parallel_strategy(problem, all)).feasible());
    EXPECT_TRUE(evaluator->evaluate(data_parallel_strategy(problem, all, ZeroLevel::parameters))
                    .feasible());
    EngineOptions engine;
    engine.searchers = {"data-parallel"};
    const SearchResult result = search(problem, engine);
    EXPECT_EQ(result.status, Status::found);
    EXPECT_TRUE(result.evaluation.feasible());
}

TEST(DataParallel, MakesNoMoreThanAMillionParts) {
    const graph::OpGraph graph = support::chain_network(100'000);
    const cost::Machine machine = plan::switched_machine(16);
    const Problem problem = plan::make_problem(graph, machine);
    const std::vector<DeviceSet> sets = data_parallel_devices(problem);
    ASSERT_FALSE(sets.empty());
    EXPECT_GT(16 * graph.op_count(), 1'000'000U);
    for (const DeviceSet& set : sets) {
        EXPECT_LE(static_cast<std::size_t>(set.size()) * graph.op_count(), 1'000'000U);
    }
}

TEST(DataParallel, LeavesWorkloadsWhole) {
    const graph::OpGraph graph = plan::WorkloadBuilder().node("a", 5).node("b", 5, {"a"}).build();
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine);
    ASSERT_EQ(data_parallel_devices(problem).size(), 1U);
    EXPECT_EQ(data_parallel_devices(problem)[0].size(), 1);
}

}  // namespace
}  // namespace partita::search
