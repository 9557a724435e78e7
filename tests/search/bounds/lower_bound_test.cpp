// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/lower_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "plan/problem/recompute_regions.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/support/random.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"
#include "tests/support/random_graph.h"
#include "tests/support/random_profile.h"

namespace partita::search {
namespace {

using graph::OpId;
using plan::Problem;
using plan::ProblemOptions;
using plan::WorkloadBuilder;
using testing::HasSubstr;

/// The best value of all placements within memory; nullopt when there is none.
std::optional<Time> exhaustive_optimum(const Problem& problem) {
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    const std::size_t ops = problem.graph().op_count();
    std::vector<int> devices(ops, 0);
    std::optional<Time> best;
    for (;;) {
        bool legal = true;
        for (std::size_t i = 0; i < ops; ++i) {
            const auto& allowed = problem.constraints().allowed_devices(OpId(i));
            legal = legal && std::binary_search(allowed.begin(), allowed.end(), devices[i]);
        }
        for (const auto& together : problem.constraints().together()) {
            for (const OpId op : together) {
                legal = legal && devices[op.index()] == devices[together[0].index()];
            }
        }
        for (const int micro_batches : problem.batch().micro_batch_choices()) {
            plan::Policy policy = problem.policy();
            policy.micro_batches = micro_batches;
            if (!legal) break;
            const auto evaluation = evaluator->evaluate(plan::whole_ops(devices, policy));
            if (evaluation.feasible()) {
                best = std::min(best.value_or(Time::max()), evaluation.value);
            }
        }
        std::size_t i = 0;
        while (i < ops && ++devices[i] == problem.device_count()) devices[i++] = 0;
        if (i == ops) return best;
    }
}

/// Six accelerators and a CPU ten times slower, as in the workloads of REFERENCES 8.
cost::Machine accelerators_and_cpu(int accelerators, Bytes memory) {
    const cost::Machine switched = plan::switched_machine(accelerators + 1);
    std::vector<cost::Device> devices(switched.devices().begin(), switched.devices().end());
    for (cost::Device& device : devices) device.memory = memory;
    devices.back().kind = cost::DeviceKind::cpu;
    devices.back().model = "host";
    devices.back().memory = Bytes{1'000'000'000};
    return {"workload", devices, {"switch"}, {switched.links().begin(), switched.links().end()}};
}

TEST(LowerBound, OfNothingIsZero) {
    const graph::OpGraph graph;
    const cost::Machine machine = plan::switched_machine(2);
    EXPECT_EQ(lower_bound(plan::make_problem(graph, machine)).value, Time{0});
}

TEST(LowerBound, CriticalPathTakesTheBestDeviceAndNoCommunication) {
    //   a(10) ─▶ b(20) ─▶ d(5)     10 + 20 + 5; c(3) is shorter than b
    //     └────▶ c(3) ────▶┘
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 10)
                                     .node("b", 20, {"a"})
                                     .node("c", 3, {"a"})
                                     .node("d", 5, {"b", "c"})
                                     .build();
    const cost::Machine machine = accelerators_and_cpu(2, Bytes{1000});
    const LowerBound bound = lower_bound(plan::make_problem(graph, machine));
    EXPECT_EQ(bound.critical_path, microseconds(35));
    EXPECT_EQ(bound.value, microseconds(35));
    EXPECT_EQ(bound.limited_by, "critical path through 'b'");
    const ProblemOptions throughput{.objective = plan::Objective::throughput};
    EXPECT_EQ(lower_bound(plan::make_problem(graph, machine, throughput)).unit, microseconds(20));
}

TEST(LowerBound, WorkIsSharedInProportionToSpeed) {
    // 61 us of accelerator time on six accelerators and a CPU a tenth as fast: 61 / 6.1.
    WorkloadBuilder build;
    for (int i = 0; i < 61; ++i) build.node(std::to_string(i), 1, {}, 1, Bytes{1'000'000});
    const graph::OpGraph graph = build.build();
    const cost::Machine machine = accelerators_and_cpu(6, Bytes{1'000'000'000});
    ProblemOptions options;
    options.objective = plan::Objective::throughput;
    const LowerBound bound = lower_bound(plan::make_problem(graph, machine, options));
    EXPECT_NEAR(static_cast<double>(bound.work.raw()), 10e6, 1.0);
    EXPECT_LE(bound.work, microseconds(10));
    EXPECT_EQ(bound.critical_path, Time{0});  // samples overlap in a pipeline
    EXPECT_EQ(bound.limited_by, "work of 7 devices");
}

TEST(LowerBound, MemoryLeavesWorkToSlowDevices) {
    // One accelerator holds 5 of 10 equal nodes; the other 5 cost ten times as much on the CPU:
    //     accelerator 5 us, CPU 50 us. Without memory: 10 / 1.1 = 9.1 us.
    WorkloadBuilder build;
    for (int i = 0; i < 10; ++i) build.node(std::to_string(i), 1, {}, 0, Bytes{20});
    const graph::OpGraph graph = build.build();
    const cost::Machine machine = accelerators_and_cpu(1, Bytes{100});
    ProblemOptions options;
    options.objective = plan::Objective::throughput;
    const LowerBound bound = lower_bound(plan::make_problem(graph, machine, options));
    EXPECT_GE(bound.work, microseconds(49));
    EXPECT_LE(bound.work, microseconds(50));
    EXPECT_LE(bound.value, microseconds(50));
    EXPECT_THAT(bound.limited_by,
                testing::AnyOf("memory of 1 device", "work and communication of 2 devices"));
}

TEST(LowerBound, WorkBehindABottleneckWaitsForIt) {
    //   a ─▶ 8 ops like a ─▶ z     on 4 devices: a + 8 a / 4 + z; the path alone gives a + a + z
    plan::NetworkBuilder build;
    const graph::Shape shape{256, 256};
    const graph::TensorId x = build.source("x", graph::TensorRole::input, shape);
    const graph::TensorId a = build.add("Relu", {x}, {shape})[0];
    std::vector<graph::TensorId> middle;
    for (int i = 0; i < 8; ++i) middle.push_back(build.add("Relu", {a}, {shape})[0]);
    const graph::TensorId z = build.add("Sum", middle, {shape})[0];
    build.add_outputs();
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options;
    options.constraints.whole_ops = true;
    const Problem problem = plan::make_problem(build.graph, machine, options);
    const Time first = problem.prices().forward_time(build.graph.tensor(a).producer, 0);
    const Time last = problem.prices().forward_time(build.graph.tensor(z).producer, 0);
    const LowerBound bound = lower_bound(problem);
    EXPECT_EQ(bound.critical_path, 2 * first + last);
    EXPECT_EQ(bound.windows, 3 * first + last);
    EXPECT_EQ(bound.limited_by, "work of 4 devices, with what must come before and after it");
}

TEST(LowerBound, TrainingPathsGoThroughBackwardAndUpdate) {
    // x w1 ─▶ mul1 ─▶ relu ─▶ mul2 (w2) ─▶ y: forward of three ops, loss, backward of three, and
    // the update of w1, one after the other; w2's update runs beside them.
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    options.constraints.whole_ops = true;
    const Problem problem = plan::make_problem(graph, machine, options);
    Time path;
    for (const std::uint32_t op : {2U, 3U, 5U, 6U}) {
        path += problem.prices().forward_time(OpId(op), 0) +
                problem.prices().backward_time(OpId(op), 0);
    }
    path += problem.prices().update_time(OpId(1U), 0);
    const LowerBound bound = lower_bound(problem);
    EXPECT_EQ(bound.critical_path, path);
    EXPECT_LE(bound.windows, path);
}

// With eight micro-batches a path is an eighth as long, and a stage waits for the first of them and
// for what follows the last: of whole ops, mul1 runs eight times forward and backward, with one of
// each before and behind it.
TEST(LowerBound, AStageDoesAllMicroBatchesOfItsOps) {
    const graph::OpGraph graph = plan::two_layers();
    cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    options.constraints.whole_ops = true;
    const LowerBound fixed = lower_bound(plan::make_problem(graph, machine, options));
    options.constraints.most_micro_batches = 8;
    const Problem problem = plan::make_problem(graph, machine, options);
    const LowerBound bound = lower_bound(problem);
    EXPECT_LE(bound.critical_path, fixed.critical_path);
    EXPECT_LE(fixed.stage, fixed.critical_path);
    Time longest;
    for (const std::uint32_t op : {2U, 3U, 5U}) {
        longest = std::max(longest, problem.prices().forward_time(OpId(op), 0) +
                                        problem.prices().backward_time(OpId(op), 0));
    }
    EXPECT_GT(bound.stage, longest);
    EXPECT_GE(bound.value, bound.stage);
}

TEST(LowerBound, NamesTheOpThatTakesLongest) {
    const graph::OpGraph graph = WorkloadBuilder()
                                     .node("a", 1, {}, 0)
                                     .node("b", 20, {"a"}, 0)
                                     .node("c", 1, {"b"}, 0)
                                     .build();
    const cost::Machine machine = plan::switched_machine(2);
    const ProblemOptions options{.objective = plan::Objective::throughput};
    const LowerBound bound = lower_bound(plan::make_problem(graph, machine, options));
    EXPECT_EQ(bound.value, microseconds(20));
    EXPECT_EQ(bound.limited_by, "'b' on its best device");
}

// A number above 0 would not be below this plan.
TEST(LowerBound, OfOpsThatTakeNoTimeIsZero) {
    const graph::OpGraph graph =
        WorkloadBuilder().node("a", 0, {}, 5).node("b", 0, {"a"}, 5).build();
    const cost::Machine machine = plan::switched_machine(2);
    const ProblemOptions options{.objective = plan::Objective::throughput};
    EXPECT_EQ(lower_bound(plan::make_problem(graph, machine, options)).value, Time{0});
}

TEST(LowerBound, FixedOpsCountOnTheirDevices) {
    // Both nodes fixed to device 0 of 2.
    const graph::OpGraph graph = WorkloadBuilder().node("a", 10).node("b", 10).build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.objective = plan::Objective::throughput;
    options.constraints.allowed = {{0}, {0}};
    EXPECT_EQ(lower_bound(plan::make_problem(graph, machine, options)).value, microseconds(20));
}

TEST(LowerBound, SaysHowMuchMemoryIsShort) {
    WorkloadBuilder build;
    for (int i = 0; i < 5; ++i) build.node(std::to_string(i), 1, {}, 0, Bytes{300'000'000});
    const graph::OpGraph graph = build.build();
    const cost::Machine machine = plan::switched_machine(1);
    const Problem problem = plan::make_problem(graph, machine);
    EXPECT_THAT(lower_bound(problem).shortage, HasSubstr("500000000 bytes short"));
    ProblemOptions options;
    options.constraints.memory_limit = Bytes{299'999'999};
    EXPECT_THAT(
        lower_bound(plan::make_problem(graph, machine, options)).shortage,
        HasSubstr("op '0' and what must lie with it keep 286 MiB (300000000 bytes), 1 bytes more"));
}

/// Random tiny problems of all kinds: real ops and given costs, both objectives, training, fixed
/// and joined ops, scarce memory.
void expect_bound_below_optimum(std::uint64_t seed, bool network) {
    Random random(seed);
    const int devices = 1 + static_cast<int>(random.below(3));
    // Some thousand placements at most.
    const int layers = devices < 3 ? 4 : 2;
    const int nodes = 1 + static_cast<int>(random.below(6));
    const graph::OpGraph graph =
        network ? support::random_network(random, layers) : support::random_workload(random, nodes);
    const std::int64_t memory = network ? 2000 + static_cast<std::int64_t>(random.below(8000))
                                        : 50 + static_cast<std::int64_t>(random.below(400));
    const cost::Machine machine = support::random_machine(random, devices, Bytes{memory});
    ProblemOptions options;
    if (network && random.below(2) == 0) {
        options.mode = plan::Mode::training;
        options.objective = plan::Objective::step_time;
        options.constraints.most_micro_batches = random.below(2) == 0 ? 0 : 8;
    }
    if (random.below(3) == 0) options.objective = plan::Objective::throughput;
    const auto ops = static_cast<std::uint64_t>(graph.op_count());
    if (random.below(2) == 0) {
        options.constraints.allowed.resize(graph.op_count());
        options.constraints.allowed[random.below(ops)] = {
            static_cast<int>(random.below(static_cast<std::uint64_t>(devices)))};
    }
    if (random.below(2) == 0) {
        options.constraints.together = {{OpId(random.below(ops)), OpId(random.below(ops))}};
    }
    const Problem problem = plan::make_problem(graph, machine, options);
    const std::optional<Time> best = exhaustive_optimum(problem);
    const LowerBound bound = lower_bound(problem);
    if (!best) return;
    EXPECT_EQ(bound.shortage, "") << "seed " << seed;
    EXPECT_LE(bound.value, *best) << "seed " << seed << " network " << network;
}

TEST(LowerBound, IsBelowTheExhaustiveOptimumOfTinyNetworks) {
    for (const std::uint64_t seed : support::seeds(60)) expect_bound_below_optimum(seed, true);
}

TEST(LowerBound, IsBelowTheExhaustiveOptimumOfTinyWorkloads) {
    for (const std::uint64_t seed : support::seeds(300)) expect_bound_below_optimum(seed, false);
}

/// Splits divide work: the bound must hold for them as well.
TEST(LowerBound, IsBelowDataParallelismOfRandomNetworks) {
    for (const std::uint64_t seed : support::seeds(40)) {
        Random random(seed);
        const graph::OpGraph graph =
            support::random_network(random, 3 + static_cast<int>(random.below(8)));
        const cost::Machine machine =
            seed % 2 == 0 ? plan::switched_machine(4)
                          : support::random_machine(random, 4, Bytes{1'000'000'000});
        ProblemOptions options;
        options.mode = plan::Mode::training;
        options.objective = plan::Objective::step_time;
        options.policy.micro_batches = seed % 3 == 0 ? 2 : 1;
        const Problem problem = plan::make_problem(graph, machine, options);
        const Time bound = lower_bound(problem).value;
        EXPECT_GT(bound, Time{0});
        const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
        for (const plan::DeviceSet& devices : data_parallel_devices(problem)) {
            for (const ZeroLevel s :
                 {ZeroLevel::none, ZeroLevel::gradients, ZeroLevel::parameters}) {
                const auto strategy = data_parallel_strategy(problem, devices, s);
                ASSERT_EQ(plan::find_fault(problem, strategy), std::nullopt);
                EXPECT_LE(bound, evaluator->evaluate(strategy).value) << "seed " << seed;
            }
        }
    }
}

// On one device all passes follow each other, so the bound is what they take.
TEST(LowerBound, CountsWhatRunsAgain) {
    const graph::OpGraph graph = plan::equal_layers(4);
    const cost::Machine machine = plan::switched_machine(1);
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    Time none;
    for (const plan::Recompute said : {plan::Recompute::none, plan::Recompute::full}) {
        options.policy.recompute = said;
        const Problem problem = plan::make_problem(graph, machine, options);
        plan::Strategy strategy =
            plan::whole_ops(std::vector<int>(graph.op_count(), 0), problem.policy());
        plan::apply_recompute(problem.facts().recompute(), strategy);
        ASSERT_EQ(plan::find_fault(problem, strategy), std::nullopt);
        const Time value =
            plan::make_evaluator(problem, plan::Scheduler::pct)->evaluate(strategy).value;
        EXPECT_EQ(lower_bound(problem).value, value);
        if (said == plan::Recompute::none) none = value;
        EXPECT_TRUE(said == plan::Recompute::none || value > none);
    }
}

TEST(LowerBound, IsBelowStrategiesThatRecompute) {
    int compared = 0;
    for (const std::uint64_t seed : support::seeds(60)) {
        Random random(seed);
        const graph::OpGraph graph = plan::in_layer_blocks(
            random, plan::random_network(random, 3 + plan::draw(random, 6), plan::Layers::any));
        const cost::Machine machine = plan::switched_machine(1 + plan::draw(random, 4));
        ProblemOptions options;
        options.mode = plan::Mode::training;
        options.objective = plan::Objective::step_time;
        options.policy.recompute =
            seed % 2 == 0 ? plan::Recompute::full : plan::Recompute::selective;
        const Problem problem = plan::make_problem(graph, machine, options);
        const Time bound = lower_bound(problem).value;
        const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
        for (int i = 0; i < 10; ++i) {
            plan::Strategy strategy = plan::random_strategy(random, problem, 1);
            plan::apply_recompute(problem.facts().recompute(), strategy);
            if (plan::find_fault(problem, strategy)) continue;
            ASSERT_LE(bound, evaluator->evaluate(strategy).value) << "seed " << seed;
            ++compared;
        }
    }
    EXPECT_GT(compared, support::draws(300));
}

/// What a strategy is worth under measured costs, of which parts may take longer or less than their
/// share.
void expect_bound_below_strategies(std::uint64_t seed) {
    Random random(seed);
    const bool micro = seed % 3 == 0;
    const int micro_batches = micro ? 1 + plan::draw(random, 3) : 1;
    const graph::OpGraph graph = plan::random_network(
        random, 1 + plan::draw(random, 6), micro ? plan::Layers::samples_apart : plan::Layers::any);
    const cost::Machine machine = seed % 2 == 0
                                      ? plan::switched_machine(1 + plan::draw(random, 6))
                                      : support::random_machine(random, 4, Bytes{1'000'000'000});
    ProblemOptions options;
    options.mode = seed % 5 == 0 ? plan::Mode::inference : plan::Mode::training;
    options.objective = seed % 7 == 0   ? plan::Objective::throughput
                        : seed % 5 == 0 ? plan::Objective::latency
                                        : plan::Objective::step_time;
    options.policy.micro_batches = micro_batches;
    const Problem analytic = plan::make_problem(graph, machine, options);
    const Problem problem =
        seed % 11 == 0
            ? plan::make_problem(graph, machine, options)
            : support::with_profile(analytic, support::random_profile(random, analytic), options);
    const Time bound = lower_bound(problem).value;
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    for (int i = 0; i < 20; ++i) {
        const plan::Strategy strategy = plan::random_strategy(random, problem, micro_batches);
        if (plan::find_fault(problem, strategy)) continue;
        ASSERT_LE(bound, evaluator->evaluate(strategy).value) << plan::text_of(problem, strategy);
    }
}

TEST(LowerBound, IsBelowRandomStrategiesOfMeasuredCosts) {
    for (const std::uint64_t seed : support::seeds(300)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        expect_bound_below_strategies(seed);
    }
}

TEST(LowerBound, IsBelowHalvesThatWereMeasuredToTakeLessThanHalf) {
    for (const std::uint64_t seed : support::seeds(60)) {
        Random random(seed);
        const graph::OpGraph graph = support::chain_network(2 + plan::draw(random, 6));
        const cost::Machine slow = plan::switched_machine(2);
        std::vector<cost::Link> links(slow.links().begin(), slow.links().end());
        for (cost::Link& link : links) {
            link.bandwidth = std::int64_t{1} << 50U;
            link.latency = Time{1};
        }
        std::vector<cost::Device> devices(slow.devices().begin(), slow.devices().end());
        for (cost::Device& device : devices) device.launch_interval = Time{1};
        const cost::Machine machine("fast links", devices, {"switch"}, links);
        const Problem analytic = plan::make_problem(graph, machine);
        const Problem problem =
            support::with_profile(analytic, support::random_profile(random, analytic), {});
        const Time bound = lower_bound(problem).value;
        const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
        for (const plan::DeviceSet& set : data_parallel_devices(problem)) {
            const auto strategy = data_parallel_strategy(problem, set, ZeroLevel::none);
            EXPECT_LE(bound, evaluator->evaluate(strategy).value) << "seed " << seed;
        }
    }
}

TEST(LowerBound, CountsMeasuredCostsOfWholeOpsInFull) {
    // Whole ops: what was measured counts in full.
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.constraints.whole_ops = true;
    const Problem analytic = plan::make_problem(graph, machine, options);
    Random random(3);
    const Problem problem =
        support::with_profile(analytic, support::random_profile(random, analytic), options);
    Time path;
    for (const std::uint32_t op : {2U, 3U, 5U}) path += problem.prices().forward_time(OpId(op), 0);
    EXPECT_EQ(lower_bound(problem).critical_path, path);
}

}  // namespace
}  // namespace partita::search
