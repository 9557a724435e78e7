// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/additive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/evaluation/max_load.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::TensorRole;

ProblemOptions training() {
    ProblemOptions options;
    options.mode = Mode::training;
    options.objective = Objective::step_time;
    return options;
}

Time additive(const Problem& problem, const Strategy& strategy) {
    LoweringCache cache(problem);
    return additive_time(problem, strategy, cache);
}

Time makespan(const Problem& problem, const Strategy& strategy) {
    return simulate(lower(problem, strategy), Scheduler::pct).makespan;
}

Strategy on_first_device(const Problem& problem) {
    return whole_ops(std::vector<int>(problem.graph().op_count(), 0), problem.policy());
}

TEST(Additive, IsTheSumOfDurationsAndTheMakespanOnOneDevice) {
    const cost::Machine machine = switched_machine(2);
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        search::Random random(seed);
        const graph::OpGraph graph = random_network(random, 8, Layers::any);
        for (const ProblemOptions& kind : {ProblemOptions{}, training()}) {
            const Problem problem = make_problem(graph, machine, kind);
            const Strategy strategy = on_first_device(problem);
            const TaskGraph tasks = lower(problem, strategy);
            Time sum;
            for (const Task& task : tasks.tasks) sum += task.duration;
            EXPECT_EQ(additive(problem, strategy), sum) << "seed " << seed;
            EXPECT_EQ(sum, makespan(problem, strategy));
        }
    }
}

TEST(Additive, CountsMicroBatchesOneAfterTheOther) {
    const cost::Machine machine = switched_machine(1);
    const graph::OpGraph graph = two_layers();  // a batch of 8
    ProblemOptions kind = training();
    kind.policy.micro_batches = 4;
    const Problem problem = make_problem(graph, machine, kind);
    const Strategy strategy = on_first_device(problem);
    EXPECT_EQ(additive(problem, strategy), makespan(problem, strategy));
}

/// x [64 32] -> MatMul -> Relu -> MatMul -> ... -> y
graph::OpGraph chain(int layers) {
    NetworkBuilder net;
    graph::TensorId x = net.source("x", TensorRole::input, {64, 32});
    for (int i = 0; i < layers; ++i) {
        x = net.add("MatMul", {x, net.weight({32, 32})}, {{64, 32}})[0];
        x = net.add("Relu", {x}, {{64, 32}})[0];
    }
    net.add_outputs();
    return net.graph;
}

/// All ops split in the same way; what cannot be is repeated.
Strategy split_alike(const Problem& problem, const std::vector<std::string>& factors, int parts) {
    Strategy strategy;
    strategy.policy = problem.policy();
    const DeviceSet devices = DeviceSet::progression(0, parts, 1);
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        OpConfig config{.axes = {Axis::replicas(parts)}, .devices = devices};
        for (const std::string& name : factors) {
            const auto axis = axis_of(problem.facts().rule(OpId(i)), name, parts);
            if (axis) config.axes = {*axis};
        }
        strategy.ops.push_back({.config = config});
    }
    return strategy;
}

TEST(Additive, IsTheMakespanOfAChainWhereNothingOverlaps) {
    const cost::Machine machine = switched_machine(4);
    const graph::OpGraph graph = chain(4);
    const Problem inference = make_problem(graph, machine);
    // Whole ops that go from device to device.
    search::Random random(7);
    for (int i = 0; i < 50; ++i) {
        std::vector<int> devices;
        for (std::size_t op = 0; op < graph.op_count(); ++op) {
            devices.push_back(static_cast<int>(random.below(4)));
        }
        const Strategy strategy = whole_ops(devices, {});
        EXPECT_EQ(additive(inference, strategy), makespan(inference, strategy));
    }
    const Strategy split =
        search::data_parallel_strategy(inference, DeviceSet::progression(0, 4, 1));
    EXPECT_EQ(additive(inference, split), makespan(inference, split));
    // Columns of each product: an all-gather before the next one.
    const Strategy columns = split_alike(inference, {"n", "d1"}, 4);
    EXPECT_EQ(additive(inference, columns), makespan(inference, columns));
    EXPECT_GT(additive(inference, columns), additive(inference, split));
}

TEST(Additive, IsTheStepTimeOfOneLayerInDataParallel) {
    // One parameter: its all-reduce has nothing to overlap with.
    NetworkBuilder net;
    const graph::TensorId x = net.source("x", TensorRole::input, {64, 32});
    net.add("MatMul", {x, net.weight({32, 32})}, {{64, 32}});
    net.add_outputs();
    const cost::Machine machine = switched_machine(4);
    const Problem problem = make_problem(net.graph, machine, training());
    const Strategy strategy =
        search::data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
    EXPECT_EQ(additive(problem, strategy), makespan(problem, strategy));
    // Updates in shards: a reduce-scatter, a quarter of the update, an all-gather.
    const Strategy shards = search::data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1),
                                                           search::ZeroLevel::gradients);
    EXPECT_EQ(additive(problem, shards), makespan(problem, shards));
    EXPECT_NE(additive(problem, shards), additive(problem, strategy));
}

TEST(Additive, HidesNoSynchronizationThatTheTimelineHides) {
    const cost::Machine machine = switched_machine(4);
    const graph::OpGraph graph = chain(4);
    const Problem problem = make_problem(graph, machine, training());
    const Strategy strategy =
        search::data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
    EXPECT_GT(additive(problem, strategy), makespan(problem, strategy));
    // What each resource does is part of the sum.
    EXPECT_GE(additive(problem, strategy), busiest_resource(lower(problem, strategy)));
}

/// Every term is about two neighbours: changing two ops that are none changes the value by the sum
/// of what either changes.
TEST(Additive, IsASumOfTermsOfNeighbours) {
    const cost::Machine machine = switched_machine(6);
    int changed = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        search::Random random(seed);
        const graph::OpGraph graph = random_network(random, 8, Layers::any);
        const Problem problem = make_problem(graph, machine, training());
        const Strategy base = on_first_device(problem);
        const Strategy other = random_strategy(random, problem, 1);
        const OpId a(random.below(graph.op_count()));
        const OpId b(random.below(graph.op_count()));
        const auto near = graph.successors(a);
        const auto before = graph.predecessors(a);
        const bool neighbours = std::ranges::find(near, b) != near.end() ||
                                std::ranges::find(before, b) != before.end();
        if (a == b || neighbours) continue;
        const auto strategy_with = [&](bool of_a, bool of_b) {
            Strategy strategy = base;
            if (of_a) strategy.ops[a.index()].config = other.config(a);
            if (of_b) strategy.ops[b.index()].config = other.config(b);
            return strategy;
        };
        // What takes partial results needs its producer's config too.
        if (find_fault(problem, strategy_with(true, true))) continue;
        const auto with = [&](bool of_a, bool of_b) {
            return additive(problem, strategy_with(of_a, of_b));
        };
        EXPECT_EQ(with(true, true) + with(false, false), with(true, false) + with(false, true))
            << "seed " << seed;
        if (with(true, true) != with(false, false)) ++changed;
    }
    EXPECT_GT(changed, 50);
}

TEST(Additive, SharesTheReshardsOfAParameterAmongItsReaders) {
    // Three steps read one weight: in data parallel there is one all-reduce of its gradient.
    NetworkBuilder net;
    graph::TensorId x = net.source("x", TensorRole::input, {64, 32});
    const graph::TensorId w = net.weight({32, 32});
    for (int i = 0; i < 3; ++i) x = net.add("MatMul", {x, w}, {{64, 32}})[0];
    net.add_outputs();
    const cost::Machine machine = switched_machine(4);
    const Problem problem = make_problem(net.graph, machine, training());
    const Strategy strategy =
        search::data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
    const Time value = additive(problem, strategy);
    EXPECT_GE(value, makespan(problem, strategy));
    EXPECT_LE(value, makespan(problem, strategy) + Time{3});  // rounding
}

}  // namespace
}  // namespace partita::plan
