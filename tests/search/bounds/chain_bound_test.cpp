// SPDX-License-Identifier: Apache-2.0
#include "search/bounds/chain_bound.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "plan/problem/micro_batches.h"
#include "plan/tensors/lowering_cache.h"
#include "search/bounds/lower_bound.h"
#include "search/bounds/uniform_reads.h"
#include "search/coarsening/op_groups.h"
#include "search/configs/search_space.h"
#include "search/support/random.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"
#include "tests/support/draws.h"

namespace partita::search {
namespace {

using graph::OpId;
using graph::TensorId;
using graph::TensorRole;
using plan::draw;
using plan::Problem;
using plan::ProblemOptions;

/// Devices `slowness` times slower than the fastest, one number each, so slow that what they
/// compute counts.
cost::Machine unequal_machine(const std::vector<int>& slowness, Time launch, Time latency) {
    const cost::Machine equal = plan::switched_machine(static_cast<int>(slowness.size()));
    std::vector<cost::Device> devices(equal.devices().begin(), equal.devices().end());
    for (std::size_t d = 0; d < devices.size(); ++d) {
        devices[d].model = "kind " + std::to_string(slowness[d]);
        devices[d].matrix_flops.fill(60'000'000 / slowness[d]);
        devices[d].vector_flops = 6'000'000 / slowness[d];
        devices[d].memory_bandwidth = 12'000'000 / slowness[d];
        devices[d].launch_interval = launch;
    }
    std::vector<cost::Link> links(equal.links().begin(), equal.links().end());
    for (cost::Link& link : links) {
        link.bandwidth = std::int64_t{1} << 50U;
        link.latency = latency;
    }
    return {"unequal", std::move(devices), {"switch"}, std::move(links)};
}

ProblemOptions training() {
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    return options;
}

struct RandomProblem {
    graph::OpGraph graph;
    cost::Machine machine;
    ProblemOptions options;
};

/// Networks in which what parts take, launches or transfers count most.
RandomProblem random_problem(Random& random, std::uint64_t seed) {
    const bool micro = seed % 3 == 0;
    graph::OpGraph graph = plan::random_network(
        random, 1 + draw(random, 6), micro ? plan::Layers::samples_apart : plan::Layers::any);
    std::vector<int> slowness;
    const int devices = 2 + draw(random, 5);
    for (int d = 0; d < devices; ++d) slowness.push_back(seed % 2 == 0 ? 1 : 1 + draw(random, 3));
    const Time launch = draw(random, 2) == 0 ? Time{1} : microseconds(1 + draw(random, 40));
    cost::Machine machine =
        unequal_machine(slowness, launch, draw(random, 2) == 0 ? Time{0} : microseconds(3));
    ProblemOptions options;
    if (seed % 5 != 0) options = training();
    // Networks have 5 samples: 2 and 3 do not divide them.
    constexpr std::array kMicroBatches{1, 2, 3, 5};
    options.policy.micro_batches =
        micro ? kMicroBatches[static_cast<std::size_t>(draw(random, 4))] : 1;
    return {std::move(graph), std::move(machine), options};
}

/// Climbs from a random strategy, so that values come near the bound; nothing on the way is below
/// it.
void expect_bound_below_a_climb(std::uint64_t seed, int steps) {
    Random random(seed);
    const RandomProblem of = random_problem(random, seed);
    const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
    const int micro_batches = of.options.policy.micro_batches;
    const LowerBound bound = lower_bound(problem);
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    plan::Strategy best =
        plan::whole_ops(std::vector<int>(of.graph.op_count(), 0), of.options.policy);
    Time value = evaluator->evaluate(best).value;
    for (int step = 0; step < steps; ++step) {
        plan::Strategy next = best;
        if (step % 8 == 0) {
            next = plan::random_strategy(random, problem, micro_batches);
        } else {
            plan::apply(next, {.ops = plan::random_change(random, problem, best)});
        }
        if (plan::find_fault(problem, next)) continue;
        const Time here = evaluator->evaluate(next).value;
        ASSERT_LE(bound.value, here) << "seed " << seed << ", " << bound.limited_by << "\n"
                                     << plan::text_of(problem, next);
        if (here >= value) continue;
        value = here;
        best = next;
    }
}

TEST(ChainBound, IsBelowStrategiesThatClimbTowardsIt) {
    for (const std::uint64_t seed : support::seeds(250)) expect_bound_below_a_climb(seed, 60);
}

TEST(ChainBound, IsTheSameEachTime) {
    for (const std::uint64_t seed : support::seeds(10)) {
        Random random(seed);
        const RandomProblem of = random_problem(random, seed);
        const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
        const LowerBound bound = lower_bound(problem);
        EXPECT_EQ(bound.chain, lower_bound(problem).chain);
        EXPECT_EQ(bound.limited_by, lower_bound(problem).limited_by);
    }
}

// What ops on two quick devices may gain from two slow ones. Were each op in four parts as quick as
// on a quick device, each would take a quarter; but a chain meets slow parts as often as quick
// ones.
TEST(ChainBound, CountsSlowDevicesByTheirShareOfAChain) {
    plan::NetworkBuilder build;
    TensorId x = build.source("x", TensorRole::input, {8, 64});
    for (int i = 0; i < 6; ++i) x = build.add("Relu", {x}, {{8, 64}})[0];
    build.add_outputs();
    const cost::Machine machine = unequal_machine({1, 1, 3, 3}, Time{1}, Time{0});
    const Problem problem = plan::make_problem(build.graph, machine);
    const LowerBound bound = lower_bound(problem);
    // Whole on a quick device: t each. In 2 parts on the quick ones t / 2; in 4 parts on average
    // (t + 3 t) / 2 / 4 = t / 2 as well.
    const Time one = problem.prices().forward_time(OpId(1U), 0);
    EXPECT_EQ(bound.chain, bound.value);
    EXPECT_THAT(bound.limited_by, testing::HasSubstr("the chain from 'Relu"));
    EXPECT_GE(bound.chain, 6 * Time(one.raw() / 2) - Time{100});
    EXPECT_LE(bound.chain, 6 * Time(one.raw() / 2));
    EXPECT_LT(bound.critical_path, 6 * Time(one.raw() / 4) + Time{100});
    EXPECT_LT(bound.work, Time(bound.chain.raw() * 4 / 5));
    // The two quick ones alone reach it.
    plan::Strategy strategy = plan::whole_ops(std::vector<int>(build.graph.op_count(), 0), {});
    for (std::size_t i = 0; i < build.graph.op_count(); ++i) {
        strategy.ops[i].config = {{plan::Axis::along(0, 2)}, plan::DeviceSet::progression(0, 2, 1)};
    }
    ASSERT_EQ(plan::find_fault(problem, strategy), std::nullopt);
    const Time value =
        plan::make_evaluator(problem, plan::Scheduler::pct)->evaluate(strategy).value;
    EXPECT_LE(bound.value, value);
    EXPECT_LE(value, bound.value + Time{1000});
}

// Two chains of large products, which are worth splitting, with small ops between them, which are
// not: to split the one and not the other moves three quarters of what is between them, a launch
// each time.
TEST(ChainBound, CountsWhatMovesBetweenOpsInDifferentNumbersOfParts) {
    plan::NetworkBuilder build;
    for (int chain = 0; chain < 2; ++chain) {
        const std::int64_t rows = chain == 0 ? 64 : 48;
        TensorId x = build.source("x" + std::to_string(chain), TensorRole::input, {rows, 64});
        for (int i = 0; i < 16; ++i) {
            x = build.add("MatMul", {x, build.weight({64, 64})}, {{rows, 64}})[0];
            x = build.add("Relu", {x}, {{rows, 64}})[0];
        }
    }
    build.add_outputs();
    const cost::Machine machine = unequal_machine({1, 1, 1, 1}, microseconds(2500), Time{0});
    const LowerBound bound = lower_bound(plan::make_problem(build.graph, machine));
    EXPECT_EQ(bound.chain, bound.value) << bound.limited_by;
    for (const Time other : {bound.critical_path, bound.windows, bound.work}) {
        EXPECT_GT(10 * bound.chain, 11 * other);
    }
}

/// Of all strategies of tiny networks on tiny machines none is below, and some are reached.
TEST(ChainBound, IsBelowAllStrategiesOfTinyNetworks) {
    int counts = 0;
    int close = 0;
    for (const std::uint64_t seed : support::seeds(30)) {
        Random random(seed);
        plan::NetworkBuilder build;
        TensorId x = build.source("x", TensorRole::input, {4, 6});
        const int layers = 2 + draw(random, 2);
        for (int i = 0; i < layers; ++i) {
            x = draw(random, 2) == 0 ? build.add("Relu", {x}, {{4, 6}})[0]
                                     : build.add("MatMul", {x, build.weight({6, 6})}, {{4, 6}})[0];
        }
        build.add_outputs();
        const Time launch = draw(random, 2) == 0 ? Time{1} : microseconds(1 + draw(random, 20));
        const cost::Machine machine =
            unequal_machine({1, 1 + draw(random, 2), 1 + draw(random, 3)}, launch, Time{0});
        const Problem problem = plan::make_problem(build.graph, machine);
        const LowerBound bound = lower_bound(problem);
        const GroupGraph groups(problem, make_groups(problem, Grouping::all));
        SearchSpace space(groups);
        const Enumerated all = enumerate(space);
        ASSERT_LE(bound.value, all.best.value) << "seed " << seed;
        const Time others =
            std::max({bound.critical_path, bound.work, bound.unit, bound.windows, bound.stage});
        counts += bound.chain > others ? 1 : 0;
        close += bound.chain > others && 10 * bound.chain >= 9 * all.best.value ? 1 : 0;
    }
    EXPECT_GT(counts, support::draws(5));
    EXPECT_GT(close, support::draws(2));
}

TEST(ChainBound, KnowsWhatIsReadEvenly) {
    plan::NetworkBuilder build;
    const TensorId image = build.source("image", TensorRole::input, {4, 8, 16, 16});
    const auto conv = [&](TensorId x, std::int64_t kernel, std::int64_t pad, std::int64_t stride,
                          std::int64_t size) {
        graph::Attributes attributes;
        attributes.set("pads", std::vector<std::int64_t>{pad, pad, pad, pad});
        attributes.set("strides", std::vector<std::int64_t>{stride, stride});
        attributes.set("kernel_shape", std::vector<std::int64_t>{kernel, kernel});
        return build.add("Conv", {x, build.weight({8, 8, kernel, kernel})}, {{4, 8, size, size}},
                         attributes)[0];
    };
    const TensorId a = build.add("Relu", {image}, {{4, 8, 16, 16}})[0];
    const TensorId same = conv(a, 3, 1, 1, 16);
    const TensorId halved = conv(same, 3, 1, 2, 8);
    const TensorId skipped = conv(same, 1, 0, 2, 8);  // leaves every other row unread
    const TensorId flat = build.add("Flatten", {halved}, {{4, 512}})[0];
    const TensorId product = build.add("MatMul", {flat, build.weight({512, 6})}, {{4, 6}})[0];
    build.add("Relu", {skipped}, {{4, 8, 8, 8}});
    build.add_outputs();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(build.graph, machine);
    const auto evenly = [&](TensorId t) {
        return is_read_evenly(problem, {build.graph.tensor(t).producer, 0});
    };
    EXPECT_TRUE(evenly(same));
    EXPECT_TRUE(evenly(halved));
    EXPECT_FALSE(evenly(skipped));
    EXPECT_TRUE(evenly(flat));
    EXPECT_TRUE(evenly(product));
}

/// The largest share that a part of the op has.
std::int64_t largest_share(const Problem& problem, OpId op, const plan::OpConfig& config,
                           int micro_batches) {
    const graph::Box base = plan::micro_batch_box(problem.facts(), op, micro_batches, 0);
    const plan::Parts parts(problem.facts().rule(op), config, base);
    std::int64_t largest = 0;
    for (int p = 0; p < parts.size(); ++p) {
        const graph::Box box = parts.box(p);
        double share = 1;
        for (std::size_t f = 0; f < box.size(); ++f) {
            share *= static_cast<double>(graph::count(box[f])) /
                     static_cast<double>(graph::count(base[f]));
        }
        largest = std::max(largest, static_cast<std::int64_t>(share * kWholeShare - 1e-6));
    }
    return largest;
}

// Replicas and summands left out, every config has a row with as many parts that is as quick and
// may have parts as large.
TEST(PartCosts, HaveARowForEveryConfig) {
    int configs = 0;
    for (const std::uint64_t seed : support::seeds(200)) {
        Random random(seed);
        const RandomProblem of = random_problem(random, seed);
        const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
        const int micro_batches = of.options.policy.micro_batches;
        const MicroBatchCosts times(problem, micro_batches);
        const WorkBound work(problem, times);
        const PartCosts table(problem, times, work.classes().device);
        plan::LoweringCache layouts(problem);
        const plan::Strategy strategy = plan::random_strategy(random, problem, micro_batches);
        for (std::size_t i = 0; i < of.graph.op_count(); ++i) {
            const OpId op(i);
            const plan::OpConfig& config = strategy.ops[i].config;
            if (!problem.facts().has_forward(op)) continue;
            if (plan::find_fault(problem, op, config, micro_batches)) continue;
            std::int64_t parts = 1;
            for (const plan::Axis& axis : config.axes) {
                if (axis.is_factor()) parts *= axis.degree;
            }
            const plan::OpLayouts& found = layouts.of(op, config, micro_batches, 0);
            const std::int64_t share = largest_share(problem, op, config, micro_batches);
            for (std::size_t c = 0; c < work.classes().count(); ++c) {
                const auto device_class = static_cast<std::size_t>(
                    problem.prices().device_class(work.classes().device[c]));
                const auto rows = table.of(op, c);
                EXPECT_TRUE(std::ranges::any_of(
                    rows,
                    [&](const PartCost& row) {
                        return row.fewest <= parts && parts <= row.most &&
                               row.forward <= found.forward[device_class] &&
                               row.backward <= found.backward[device_class] && row.largest >= share;
                    }))
                    << "seed " << seed << " op " << of.graph.op(op).name;
                ++configs;
            }
        }
    }
    EXPECT_GT(configs, support::draws(1'000));
}

// Each micro-batch reads the parameters and adds to their gradients.
TEST(MicroBatchCosts, MicroBatchesMakeWorkLarger) {
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = unequal_machine({1}, Time{1}, Time{0});
    ProblemOptions options = training();
    Time before;
    for (const int micro_batches : {1, 2, 4}) {
        options.policy.micro_batches = micro_batches;
        const Problem problem = plan::make_problem(graph, machine, options);
        const LowerBound bound = lower_bound(problem);
        EXPECT_EQ(bound.micro_batches, micro_batches);
        EXPECT_GT(bound.work, before);
        before = bound.work;
        const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
        const Time value =
            evaluator
                ->evaluate(plan::whole_ops(std::vector<int>(graph.op_count(), 0), options.policy))
                .value;
        // One device does it all, one task after the other.
        EXPECT_LE(bound.value, value);
        EXPECT_GE(bound.value.raw() * 1000, value.raw() * 999);
    }
}

// A mask is no part of the batch, but has its dim: a micro-batch reads its own rows of it.
TEST(MicroBatchCosts, TakeTheirShareOfWhatHasTheDimOfTheBatch) {
    plan::NetworkBuilder build;
    const graph::Shape shape{4, 1 << 20};
    const TensorId x = build.source("x", graph::TensorRole::input, shape);
    const TensorId mask = build.source("mask", graph::TensorRole::constant, shape);
    build.add("Add", {x, mask}, {shape});
    build.add_outputs();
    const cost::Machine machine = unequal_machine({1}, Time{1}, Time{0});
    ProblemOptions options;
    for (const int micro_batches : {1, 2, 4}) {
        options.policy.micro_batches = micro_batches;
        const Problem problem = plan::make_problem(build.graph, machine, options);
        ASSERT_FALSE(problem.facts().is_batched(mask));
        const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
        const Time value = evaluator
                               ->evaluate(plan::whole_ops(
                                   std::vector<int>(build.graph.op_count(), 0), options.policy))
                               .value;
        const LowerBound bound = lower_bound(problem);
        EXPECT_LE(bound.value, value);
        EXPECT_GE(bound.value.raw() * 1000, value.raw() * 999);
    }
}

}  // namespace
}  // namespace partita::search
