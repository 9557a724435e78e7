// SPDX-License-Identifier: Apache-2.0
#include "rl/action_space.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/files/plan_file.h"
#include "plan/legality/config_legality.h"
#include "tests/rl/rl_cases.h"

namespace partita::rl {
namespace {

using graph::OpId;
using search::Random;
using testing::Each;
using testing::SizeIs;

/// A pipeline that does not fit its schedule is worse, not illegal.
std::string fault(const plan::Problem& problem, plan::Strategy strategy) {
    strategy.policy.schedule = {};
    return plan::find_fault(problem, strategy).value_or("");
}

TEST(ActionSpace, EveryCombinationOfChoicesIsALegalStrategy) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        Random random(seed);
        graph::OpGraph graph = support::random_network(random, 20);
        plan::ProblemOptions kind = training(4);
        kind.constraints.allowed.resize(graph.op_count());
        if (seed % 3 == 0) {
            for (int i = 0; i < 5; ++i)
                kind.constraints.allowed[random.below(graph.op_count())] = {1, 3};
        }
        if (seed % 4 == 0) {
            const OpId a(random.below(graph.op_count()));
            const OpId b(random.below(graph.op_count()));
            kind.constraints.allowed[a.index()] = kind.constraints.allowed[b.index()] = {};
            kind.constraints.together = {{a, b}};
        }
        Fixture f(std::move(graph), support::random_machine(random, 4, Bytes{10'000'000}), kind);
        for (int i = 0; i < 60; ++i) {
            const Choices choices = f.draw(random);
            EXPECT_EQ(fault(f.problem, f.space.strategy(choices.iteration, choices.options)), "")
                << "seed " << seed;
        }
    }
}

TEST(ActionSpace, FindsItsOwnStrategiesAgain) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        Random random(seed);
        Fixture f(support::random_network(random, 15), plan::switched_machine(4), training());
        for (int i = 0; i < 20; ++i) {
            const Choices choices = f.draw(random);
            const plan::Strategy strategy = f.space.strategy(choices.iteration, choices.options);
            const Choices again = f.space.nearest(strategy);
            const plan::Strategy same = f.space.strategy(again.iteration, again.options);
            EXPECT_TRUE(same.ops == strategy.ops) << "seed " << seed << ", " << i;
        }
    }
}

TEST(ActionSpace, SplitsAndChoosesHowAnIterationGoes) {
    Fixture f(plan::two_layers(), plan::switched_machine(2), training(4));
    bool splits = false;
    for (std::size_t d = 0; d < f.space.size(); ++d) {
        for (const Option& option : f.space.options(d)) {
            splits = splits || option.kind.axes[0] == AxisClass::sample;
        }
    }
    EXPECT_TRUE(splits);
    bool micro_batches = false;
    bool shards = false;
    for (const Iteration& iteration : f.space.iterations()) {
        micro_batches = micro_batches || iteration.policy.micro_batches == 4;
        shards = shards || iteration.sharding == search::ParameterSharding::in_shards;
    }
    EXPECT_TRUE(micro_batches);
    EXPECT_TRUE(shards);
}

TEST(ActionSpace, NeverSplitsWhatMustStayWhole) {
    plan::ProblemOptions kind;
    kind.constraints.whole_ops = true;
    Fixture f(plan::two_layers(), plan::switched_machine(4), kind);
    for (std::size_t d = 0; d < f.space.size(); ++d) EXPECT_THAT(f.space.options(d), SizeIs(4));
}

TEST(Decisions, AreNoMoreThanAskedForAndInOrder) {
    Random random(3);
    Fixture f(support::random_workload(random, 200), plan::switched_machine(3), {},
              {.most_decisions = 20});
    EXPECT_LE(f.space.size(), 20U);
    EXPECT_GE(f.space.size(), 10U);
    EXPECT_THAT(f.space.decisions().of_op, Each(testing::Ge(0)));
    for (std::size_t d = 0; d < f.space.size(); ++d) {
        for (const DecisionEdge& edge : f.prices.incoming(d)) EXPECT_LT(edge.producer, d);
    }
}

TEST(OptionPrices, AreTheTimesOfTheModelForWholeOps) {
    Fixture f(plan::two_layers(), plan::switched_machine(2), training());
    for (std::size_t d = 0; d < f.space.size(); ++d) {
        double total = 0;
        for (const OpId op : f.space.ops(d))
            total += to_seconds(f.problem.prices().total_time(op, 0));
        EXPECT_DOUBLE_EQ(f.prices.price(d, 0).compute, total);
        EXPECT_EQ(f.prices.price(d, 0).sync, 0);
    }
}

}  // namespace
}  // namespace partita::rl
