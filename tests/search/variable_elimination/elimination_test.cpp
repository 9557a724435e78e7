// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/elimination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "plan/evaluation/additive.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "plan/legality/config_legality.h"
#include "search/configs/standard_configs.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;
using graph::TensorId;
using graph::TensorRole;
using plan::Problem;
using plan::ProblemOptions;
using plan::Strategy;
using testing::HasSubstr;
using testing::IsEmpty;

ProblemOptions training() {
    ProblemOptions options;
    options.mode = plan::Mode::training;
    options.objective = plan::Objective::step_time;
    return options;
}

std::int64_t additive(const Problem& problem, const Strategy& strategy) {
    plan::LoweringCache cache(problem);
    return additive_time(problem, strategy, cache).raw();
}

std::int64_t count_of(const CostGraph& graph) {
    std::int64_t count = 1;
    for (const auto& node : graph.nodes) {
        count *= std::ssize(node);
        if (count > 1'000'000) return count;
    }
    return count;
}

std::int64_t brute_force(const CostGraph& graph) {
    std::vector<int> choices(graph.nodes.size(), 0);
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (;;) {
        best = std::min(best, value_of(graph, choices));
        std::size_t v = 0;
        while (v < choices.size() && ++choices[v] == std::ssize(graph.nodes[v])) choices[v++] = 0;
        if (v == choices.size()) return best;
    }
}

/// Any choices, not only the best: what the tables say is what the evaluator says.
TEST(EliminationSpace, CostsAreThoseOfTheAdditiveEvaluator) {
    const cost::Machine machine = plan::switched_machine(4);
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = seed % 2 == 0 ? support::random_network(random, 10)
                                                   : random_network(random, 6, plan::Layers::any);
        for (const ProblemOptions& kind : {ProblemOptions{}, training()}) {
            const Problem problem = plan::make_problem(graph, machine, kind);
            EliminationSpace space(problem, equal_devices(problem), Detail::two_axes);
            const CostGraph costs = space.costs({});
            for (int draw = 0; draw < 5; ++draw) {
                std::vector<int> choices;
                for (const auto& node : costs.nodes) {
                    choices.push_back(static_cast<int>(random.below(node.size())));
                }
                const Strategy strategy = space.strategy(choices, {});
                ASSERT_EQ(find_fault(problem, strategy), std::nullopt) << "seed " << seed;
                EXPECT_EQ(value_of(costs, choices), additive(problem, strategy))
                    << "seed " << seed << "\n"
                    << text_of(problem, strategy);
            }
        }
    }
}

TEST(EliminationSpace, PricesMicroBatches) {
    const cost::Machine machine = plan::switched_machine(2);
    const graph::OpGraph graph = plan::two_layers();
    ProblemOptions kind = training();
    kind.policy.micro_batches = 2;
    const Problem problem = plan::make_problem(graph, machine, kind);
    EliminationSpace space(problem, {0, 1}, Detail::two_axes);
    const CostGraph costs = space.costs({});
    const Elimination best = eliminate(costs);
    const Strategy strategy = space.strategy(best.choices, {});
    EXPECT_EQ(find_fault(problem, strategy), std::nullopt);
    EXPECT_EQ(best.value, additive(problem, strategy));
}

TEST(EliminationSpace, BestChoicesAreThoseOfBruteForce) {
    const cost::Machine machine = plan::switched_machine(2);
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 4);
        const Problem problem =
            plan::make_problem(graph, machine, seed % 2 == 0 ? training() : ProblemOptions{});
        EliminationSpace space(problem, {0, 1}, Detail::one_axis);
        const CostGraph costs = space.costs({});
        if (count_of(costs) > 100'000) continue;
        ++compared;
        EXPECT_EQ(eliminate(costs).value, brute_force(costs)) << "seed " << seed;
    }
    EXPECT_GT(compared, 50);
}

/// Without weights on memory no list of configs makes the plan worse than what is in the list.
TEST(EliminationSpace, IsNeverWorseThanDataParallelOrOneDevice) {
    const cost::Machine machine = plan::switched_machine(4);
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 12);
        const Problem problem = plan::make_problem(graph, machine, training());
        EliminationSpace space(problem, {0, 1, 2, 3}, Detail::two_axes);
        const Elimination best = eliminate(space.costs({}));
        EXPECT_TRUE(best.exact);
        const Strategy whole =
            plan::whole_ops(std::vector<int>(graph.op_count(), 0), problem.policy());
        EXPECT_LE(best.value, additive(problem, whole)) << "seed " << seed;
        const Strategy batch =
            data_parallel_strategy(problem, plan::DeviceSet::progression(0, 4, 1));
        EXPECT_LE(best.value, additive(problem, batch)) << "seed " << seed;
    }
}

/// The same network with its layers' sources and branches in another order.
graph::OpGraph branches(bool turned) {
    plan::NetworkBuilder net;
    const TensorId x = net.source("x", TensorRole::input, {64, 32});
    std::vector<TensorId> w{net.weight({32, 64}), net.weight({32, 48})};
    if (turned) std::swap(w[0], w[1]);
    std::vector<TensorId> ends;
    for (const int i : {0, 1}) {
        const std::int64_t width = (i == 0) != turned ? 64 : 48;
        const TensorId y = net.add("MatMul", {x, w[static_cast<std::size_t>(i)]}, {{64, width}})[0];
        ends.push_back(net.add("Relu", {y}, {{64, width}})[0]);
    }
    net.add_outputs();
    return net.graph;
}

TEST(EliminationSpace, DoesNotDependOnTheOrderOfOps) {
    const cost::Machine machine = plan::switched_machine(4);
    std::vector<std::int64_t> values;
    for (const bool turned : {false, true}) {
        const graph::OpGraph graph = branches(turned);
        const Problem problem = plan::make_problem(graph, machine, training());
        EliminationSpace space(problem, {0, 1, 2, 3}, Detail::two_axes);
        values.push_back(eliminate(space.costs({})).value);
    }
    EXPECT_EQ(values[0], values[1]);
}

/// A chain of products of which each wants another split: alone cheap, together resharded.
TEST(EliminationSpace, SplitsLargeProductsByTheirParameters) {
    // A tiny batch and a large weight: the all-reduce of its gradient would take longer than all
    // else.
    plan::NetworkBuilder net;
    const TensorId x = net.source("x", TensorRole::input, {4, 512});
    net.add("MatMul", {x, net.weight({512, 4096})}, {{4, 4096}});
    net.add_outputs();
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(net.graph, machine, training());
    EliminationSpace space(problem, {0, 1, 2, 3}, Detail::two_axes);
    const Elimination best = eliminate(space.costs({}));
    const Strategy strategy = space.strategy(best.choices, {});
    const auto product = *net.graph.find_op("MatMul1");
    ASSERT_FALSE(strategy.config(product).axes.empty());
    EXPECT_EQ(name_of(problem.facts().rule(product), strategy.config(product).axes[0]), "n");
}

EngineOptions options() {
    EngineOptions options;
    options.searchers = {"elimination"};
    options.evaluations = 40;
    return options;
}

TEST(EliminationSearch, SaysWhichDevicesItLeavesOut) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Random random(seed);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        const graph::OpGraph graph = support::random_network(random, 8);
        const Problem problem = plan::make_problem(graph, machine, training());
        const SearchResult result = search(problem, options());
        const auto equal = equal_devices(problem).size();
        const bool noted = std::ranges::any_of(result.notes, [](const std::string& note) {
            return note.find("elimination: the devices differ") != std::string::npos;
        });
        EXPECT_EQ(noted, equal != 4) << "seed " << seed;
        EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
    }
}

TEST(EliminationSearch, SaysWhereTheGraphIsTooWide) {
    // Ten operands that all meet: every op adds two of the ones before.
    plan::NetworkBuilder net;
    std::vector<TensorId> tensors;
    for (int i = 0; i < 10; ++i) {
        tensors.push_back(net.source("x" + std::to_string(i), TensorRole::input, {64, 64}));
        tensors.back() = net.add("Relu", {tensors.back()}, {{64, 64}})[0];
    }
    for (int i = 0; i < 10; ++i) {
        for (int j = 0; j < i; ++j) {
            net.add("Add",
                    {tensors[static_cast<std::size_t>(i)], tensors[static_cast<std::size_t>(j)]},
                    {{64, 64}});
        }
    }
    net.add_outputs();
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(net.graph, machine);
    const SearchResult result = search(problem, options());
    ASSERT_FALSE(result.notes.empty());
    EXPECT_THAT(result.notes[0], HasSubstr("elimination: the graph is too wide"));
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

TEST(EliminationSearch, PricesMemoryWhereTheOptimumDoesNotFit) {
    const graph::OpGraph graph = support::chain_network(16);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions kind = training();
    const Problem roomy = plan::make_problem(graph, machine, kind);
    const SearchResult best = search(roomy, options());
    Bytes most;
    for (const plan::DeviceUse& use : best.evaluation.devices) most = std::max(most, use.memory);
    kind.constraints.memory_limit = Bytes{most.raw() * 3 / 4};
    const Problem tight = plan::make_problem(graph, machine, kind);
    const SearchResult found = search(tight, options());
    ASSERT_TRUE(found.evaluation.feasible());
    EXPECT_EQ(found.searcher, "elimination");
    EXPECT_GE(found.evaluation.value, best.evaluation.value);
    EXPECT_THAT(plan::verify(tight, make_plan(tight, found)), IsEmpty());
}

TEST(EliminationSearch, GivesTheSamePlanWhateverTheSeed) {
    Random random(4);
    const graph::OpGraph graph = support::random_network(random, 20);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    EngineOptions first = options();
    EngineOptions second = options();
    second.seed = 77;
    EXPECT_EQ(search(problem, first).strategy, search(problem, second).strategy);
}

TEST(EliminationSearch, KeepsOpsWholeWhereTheyMustBe) {
    Random random(4);
    const graph::OpGraph graph = support::random_network(random, 12);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions kind = training();
    kind.constraints.whole_ops = true;
    const Problem problem = plan::make_problem(graph, machine, kind);
    const SearchResult result = search(problem, options());
    for (const plan::OpDecision& op : result.strategy.ops) {
        EXPECT_TRUE(op.config.axes.empty());
    }
}

}  // namespace
}  // namespace partita::search
