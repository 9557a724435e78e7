// SPDX-License-Identifier: Apache-2.0
//
// No lower bound is above a feasible plan. Plans are drawn first and memory is cut down to what
// they need, to the byte, so that whatever a bound believes about memory is put to the test:
// unequal devices, uneven parts, parameters that are updated elsewhere, parts that just fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "search/bounds/lower_bound.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "search/support/random.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"

namespace partita::search {
namespace {

using plan::draw;
using plan::Problem;
using plan::ProblemOptions;
using plan::Strategy;
using Ints = std::vector<std::int64_t>;

/// Devices up to 100 times as fast as others, with launches that take next to nothing, so that
/// every element counts; links that are quick or slow.
cost::Machine unequal_machine(Random& random) {
    const int count = 1 + draw(random, draw(random, 2) == 0 ? 3 : 6);
    const cost::Machine equal = plan::switched_machine(count);
    std::vector<cost::Device> devices(equal.devices().begin(), equal.devices().end());
    std::vector<cost::Link> links(equal.links().begin(), equal.links().end());
    const std::int64_t fabric = draw(random, 2) == 0 ? 100'000'000 : 1'000'000'000'000;
    for (cost::Link& link : links) {
        link.bandwidth = fabric;
        link.latency = Time{1};
    }
    constexpr std::int64_t kSpeeds[] = {1, 2, 10, 100};
    for (cost::Device& device : devices) {
        const std::int64_t speed = kSpeeds[draw(random, 4)];
        device.model = "speed " + std::to_string(speed);
        device.memory = Bytes{1'000'000'000};
        device.memory_bandwidth = speed * 100'000'000;
        device.matrix_flops.fill(speed * 10'000'000);
        device.vector_flops = speed * 10'000'000;
        device.launch_interval = Time{1000};
    }
    return {"unequal", std::move(devices), {"switch"}, std::move(links)};
}

cost::Machine with_memory(const cost::Machine& machine, const std::vector<Bytes>& memory) {
    std::vector<cost::Device> devices(machine.devices().begin(), machine.devices().end());
    for (std::size_t d = 0; d < devices.size(); ++d) devices[d].memory = memory[d];
    return {"just enough",
            std::move(devices),
            {"switch"},
            {machine.links().begin(), machine.links().end()}};
}

graph::Attributes on_rows() {
    return plan::attribute("axis", std::int64_t{1});
}

graph::Attributes rows_of(std::int64_t begin, std::int64_t end) {
    graph::Attributes window = plan::attribute("starts", Ints{begin});
    window.set("ends", Ints{end});
    window.set("axes", Ints{1});
    return window;
}

graph::Attributes every_fourth() {
    graph::Attributes window = plan::attribute("kernel_shape", Ints{1});
    window.set("strides", Ints{4});
    return window;
}

/// One to three layers whose weights are larger than what flows between them, so that memory is
/// weights; extents that few degrees divide.
graph::OpGraph heavy_network(Random& random) {
    plan::NetworkBuilder build;
    const auto extent = [&] { return std::int64_t{1 + draw(random, 7)}; };
    const std::int64_t samples = extent();
    std::int64_t rows = extent();
    std::int64_t columns = extent();
    graph::TensorId x = build.source("x", graph::TensorRole::input, {samples, rows, columns});
    for (int layer = draw(random, 3); layer >= 0; --layer) {
        const std::int64_t next = extent() * (1 + draw(random, 8));
        switch (layer == 0 ? 0 : draw(random, 5)) {  // something to train
        case 0:                                      // a weight for each sample
            x = build.add("MatMul", {x, build.weight({samples, columns, next})},
                          {{samples, rows, next}})[0];
            columns = next;
            break;
        case 2:  // only some rows are read on
            x = build.add("Slice", {x}, {{samples, 1, columns}}, rows_of(rows - 1, rows))[0];
            rows = 1;
            break;
        case 3: {  // what never changes is read with gaps
            const graph::TensorId table = build.weight({samples, 1, 4 * columns});
            const graph::TensorId read =
                build.add("MaxPool", {table}, {{samples, 1, columns}}, every_fourth())[0];
            x = build.add("Add", {x, read}, {{samples, rows, columns}})[0];
            break;
        }
        case 4: {  // of two results that are put together one is taken out again
            const graph::TensorId product = build.add(
                "MatMul", {x, build.weight({columns, columns})}, {{samples, rows, columns}})[0];
            const graph::TensorId both =
                build.add("Concat", {product, x}, {{samples, 2 * rows, columns}}, on_rows())[0];
            x = build.add("Slice", {both}, {{samples, rows, columns}}, rows_of(rows, 2 * rows))[0];
            break;
        }
        default:
            x = build.add("MatMul", {x, build.weight({columns, next})}, {{samples, rows, next}})[0];
            columns = next;
        }
    }
    build.add_outputs();
    return std::move(build.graph);
}

struct Drawn {
    Strategy strategy;
    plan::Evaluation evaluation;
};

/// The quickest of some legal strategies, each a few changes away from the best so far.
std::optional<Drawn> draw_plan(Random& random, const Problem& problem, int micro_batches) {
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    std::optional<Drawn> best;
    for (int i = 0; i < 200; ++i) {
        Strategy strategy;
        if (!best || i < 20) {
            strategy = plan::random_strategy(random, problem, micro_batches);
        } else {
            strategy = best->strategy;
            plan::apply(strategy, {.ops = plan::random_change(random, problem, best->strategy)});
        }
        if (plan::find_fault(problem, strategy)) continue;
        plan::Evaluation evaluation = evaluator->evaluate(strategy);
        if (best && !evaluation.better_than(best->evaluation)) continue;
        best = Drawn{std::move(strategy), std::move(evaluation)};
    }
    return best;
}

/// Less than all tensors together on most devices, so that quick plans are those that fit.
std::vector<Bytes> scarce_memory(Random& random, const graph::OpGraph& graph, int devices) {
    Bytes all;
    for (std::size_t t = 0; t < graph.tensor_count(); ++t) {
        all += graph.tensor(graph::TensorId(t)).bytes();
    }
    std::vector<Bytes> memory;
    for (int d = 0; d < devices; ++d) {
        memory.emplace_back(1 + all.raw() * (1 + draw(random, 16)) / 10);
    }
    return memory;
}

std::vector<Bytes> just_enough(Random& random, const plan::Evaluation& evaluation) {
    std::vector<Bytes> memory;
    for (const plan::DeviceUse& device : evaluation.devices) {
        // At least one byte: a machine has no device without memory.
        const Bytes needed = std::max(device.memory, Bytes{1});
        memory.push_back(draw(random, 4) == 0 ? 2 * needed : needed);
    }
    return memory;
}

ProblemOptions draw_options(Random& random) {
    ProblemOptions options;
    if (draw(random, 2) == 0) {
        options.mode = plan::Mode::training;
        options.objective = plan::Objective::step_time;
        constexpr plan::Optimizer kOptimizers[] = {plan::Optimizer::sgd, plan::Optimizer::momentum,
                                                   plan::Optimizer::adam};
        options.policy.optimizer = kOptimizers[draw(random, 3)];
    }
    if (draw(random, 3) == 0) options.objective = plan::Objective::throughput;
    return options;
}

/// A problem and one of its plans, with no more memory than that one needs.
struct JustFitting {
    graph::OpGraph graph;
    cost::Machine machine;
    ProblemOptions options;
    Strategy strategy;

    [[nodiscard]] Problem problem() const { return plan::make_problem(graph, machine, options); }
};

std::optional<JustFitting> draw_just_fitting(std::uint64_t seed) {
    Random random(seed);
    const int micro_batches = draw(random, 4) == 0 ? 1 + draw(random, 3) : 1;
    graph::OpGraph graph =
        micro_batches == 1 && draw(random, 4) > 0
            ? heavy_network(random)
            : plan::random_network(
                  random, draw(random, 6),
                  micro_batches > 1 ? plan::Layers::samples_apart : plan::Layers::any);
    const cost::Machine roomy = unequal_machine(random);
    ProblemOptions options = draw_options(random);
    options.policy.micro_batches = micro_batches;
    const cost::Machine tight =
        with_memory(roomy, scarce_memory(random, graph, roomy.device_count()));
    const Problem anywhere = plan::make_problem(graph, tight, options);
    std::optional<Drawn> drawn = draw_plan(random, anywhere, micro_batches);
    if (!drawn) return std::nullopt;
    cost::Machine machine = with_memory(roomy, just_enough(random, drawn->evaluation));
    return JustFitting{std::move(graph), std::move(machine), std::move(options),
                       std::move(drawn->strategy)};
}

void expect_bound_below_a_plan_that_just_fits(std::uint64_t seed) {
    const std::optional<JustFitting> drawn = draw_just_fitting(seed);
    if (!drawn) return;
    const Problem problem = drawn->problem();
    const plan::Evaluation evaluation =
        plan::make_evaluator(problem, plan::Scheduler::pct)->evaluate(drawn->strategy);
    ASSERT_TRUE(evaluation.feasible());
    const LowerBound bound = lower_bound(problem);
    EXPECT_EQ(bound.shortage, "") << plan::text_of(problem, drawn->strategy);
    EXPECT_LE(bound.value, evaluation.value) << bound.limited_by << "\n"
                                             << plan::text_of(problem, drawn->strategy);
}

/// What a searcher finds is not below the bound, and what it proves to be the best is no slower
/// than a plan that is known.
void expect_sound_searches(std::uint64_t seed) {
    const std::optional<JustFitting> drawn = draw_just_fitting(seed);
    if (!drawn) return;
    const Problem problem = drawn->problem();
    const Time known =
        plan::make_evaluator(problem, plan::Scheduler::pct)->evaluate(drawn->strategy).value;
    const Time bound = lower_bound(problem).value;
    for (const SearcherRow& row : searcher_table()) {
        if (row.learned) continue;
        SCOPED_TRACE(row.name);
        EngineOptions options{.searchers = {std::string(row.name)}, .evaluations = 100};
        if (row.name == "auto") options.start = drawn->strategy;
        const SearchResult result = search(problem, std::move(options));
        if (!result.evaluation.feasible()) continue;
        EXPECT_GE(result.evaluation.value, bound);
        EXPECT_LE(result.lower_bound, known);
        const bool knows = row.name == "auto" || result.status == Status::optimal;
        EXPECT_TRUE(!knows || result.evaluation.value <= known);
    }
}

/// A slow device with much memory and a quick one with little, joined by links that take next to
/// nothing.
cost::Machine slow_and_quick(Bytes slow, Bytes quick) {
    const cost::Machine equal = plan::switched_machine(2);
    std::vector<cost::Device> devices(equal.devices().begin(), equal.devices().end());
    std::vector<cost::Link> links(equal.links().begin(), equal.links().end());
    for (cost::Link& link : links) {
        link.bandwidth = std::int64_t{1} << 50U;
        link.latency = Time{1};
    }
    devices[0].memory = slow;
    devices[1].memory = quick;
    devices[1].model = "quick";
    devices[1].memory_bandwidth *= 10;
    devices[1].vector_flops *= 10;
    for (std::int64_t& flops : devices[1].matrix_flops) flops *= 10;
    return {"unequal", std::move(devices), {"switch"}, std::move(links)};
}

// Three samples in two parts: 8 MB for the slow device, 4 MB for the quick one, which half of 12 MB
// would not fit.
TEST(LowerBound, AllowsASmallLastPartWhereTheOthersHaveNoRoom) {
    plan::NetworkBuilder build;
    const graph::TensorId x = build.source("x", graph::TensorRole::input, {3, 100, 1000});
    build.add("MatMul", {x, build.weight({3, 1000, 1000})}, {{3, 100, 1000}});
    build.add_outputs();
    const cost::Machine machine = slow_and_quick(Bytes{100'000'000}, Bytes{5'500'000});
    const Problem problem = plan::make_problem(build.graph, machine);
    Strategy strategy = plan::whole_ops(std::vector<int>(build.graph.op_count(), 0), {});
    const auto product = build.graph.op_count() - 2;
    ASSERT_EQ(build.graph.ops()[product].type, "MatMul");
    const auto& factors = problem.facts().rule(graph::OpId(product)).factors;
    const auto samples = std::ranges::find(factors, 3, &graph::Factor::extent);
    ASSERT_NE(samples, factors.end());
    strategy.ops[product].config = {.axes = {plan::Axis::along(samples - factors.begin(), 2)},
                                    .devices = plan::DeviceSet::progression(0, 2, 1)};
    ASSERT_EQ(plan::find_fault(problem, strategy), std::nullopt);
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    const plan::Evaluation evaluation = evaluator->evaluate(strategy);
    ASSERT_TRUE(evaluation.feasible());
    EXPECT_LE(lower_bound(problem).value, evaluation.value);
    const SearchResult alone = search(problem, {.searchers = {"single-device"}});
    EXPECT_NE(alone.status, Status::optimal);
}

void expect_bound_below(const Problem& problem, const Strategy& strategy) {
    ASSERT_EQ(plan::find_fault(problem, strategy), std::nullopt);
    const auto evaluator = plan::make_evaluator(problem, plan::Scheduler::pct);
    EXPECT_LE(lower_bound(problem).value, evaluator->evaluate(strategy).value)
        << lower_bound(problem).limited_by;
}

constexpr std::int64_t kLong = 1'000'000;

// Nothing is sent, and nobody waits: two products that only a tensor without elements joins run
// side by side.
TEST(LowerBound, KnowsThatNobodyWaitsForATensorWithoutElements) {
    plan::NetworkBuilder build;
    const graph::TensorId x = build.source("x", graph::TensorRole::input, {kLong, 1});
    const graph::TensorId z = build.source("z", graph::TensorRole::input, {1, kLong});
    const graph::TensorId first = build.add("Relu", {x}, {{kLong, 1}})[0];
    graph::Attributes none = plan::attribute("starts", Ints{0});
    none.set("ends", Ints{0});
    none.set("axes", Ints{1});
    const graph::TensorId empty = build.add("Slice", {first}, {{kLong, 0}}, none)[0];
    const graph::TensorId product = build.add("MatMul", {z, empty}, {{1, 0}})[0];
    build.add("Concat", {product, z}, {{1, kLong}}, on_rows());
    build.add_outputs();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options;
    options.constraints.whole_ops = true;
    const Problem problem = plan::make_problem(build.graph, machine, options);
    std::vector<int> devices(build.graph.op_count(), 1);
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const std::string& name = build.graph.ops()[i].name;
        if (name == "x" || name.starts_with("Relu")) devices[i] = 0;
    }
    expect_bound_below(problem, plan::whole_ops(devices, {}));
}

// What reads the padding alone does not wait for what was padded.
TEST(LowerBound, KnowsThatNobodyWaitsForPadding) {
    plan::NetworkBuilder build;
    const graph::TensorId x = build.source("x", graph::TensorRole::input, {kLong});
    const auto along = [] { return plan::attribute("axis", std::int64_t{0}); };
    const graph::TensorId sum = build.add("CumSum", {x}, {{kLong}}, along())[0];
    const graph::TensorId padded =
        build.add("Pad", {sum}, {{2 * kLong}}, plan::attribute("pads", Ints{kLong, 0}))[0];
    graph::Attributes window = plan::attribute("starts", Ints{0});
    window.set("ends", Ints{kLong});
    window.set("axes", Ints{0});
    const graph::TensorId zeros = build.add("Slice", {padded}, {{kLong}}, window)[0];
    build.add("CumSum", {zeros}, {{kLong}}, along());
    build.add_outputs();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(build.graph, machine);
    Strategy strategy = plan::whole_ops({0, 0, 1, 1, 1, 1}, {});
    ASSERT_EQ(build.graph.ops()[2].type, "Pad");
    strategy.ops[2].config = {.axes = {plan::Axis::along(0, 2)},
                              .devices = plan::DeviceSet::list({1, 0})};
    expect_bound_below(problem, strategy);
}

/// Of plans that once were below their bounds.
constexpr std::uint64_t kFell[] = {785, 3052, 4528};

TEST(LowerBound, IsBelowPlansThatJustFitUnequalDevices) {
    for (const std::uint64_t seed : kFell) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        expect_bound_below_a_plan_that_just_fits(seed);
    }
    for (const std::uint64_t seed : support::seeds(300)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        expect_bound_below_a_plan_that_just_fits(seed);
    }
}

TEST(LowerBound, IsBelowWhatEverySearcherFindsOnUnequalDevices) {
    for (const std::uint64_t seed : support::seeds(75)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        expect_sound_searches(seed);
    }
}

}  // namespace
}  // namespace partita::search
