// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/chain_runner.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "search/coarsening/group_graph.h"
#include "search/coarsening/op_groups.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

class Walks : public testing::Test {
protected:
    Walks()
        : graph_(support::chain_network(12)),
          machine_(plan::switched_machine(4)),
          problem_(plan::make_problem(
              graph_, machine_,
              {.mode = plan::Mode::training, .objective = plan::Objective::step_time})),
          groups_(problem_, make_groups(problem_, Grouping::all)),
          start_(scattered(static_cast<int>(graph_.op_count()))) {
        for (const Move& move : move_table()) moves_.push_back(&move);
    }

    /// So that many changes are better.
    static plan::Strategy scattered(int ops) {
        std::vector<int> devices;
        for (int i = 0; i < ops; ++i) devices.push_back(i % 4);
        return plan::on_devices(devices);
    }

    ChainRunner runner() const { return {groups_, start_, Random(3)}; }
    ChainRunner::Steps walk(ChainRunner& runner, int proposals) const {
        return runner.walk(moves_, 1e-3, proposals, [] { return false; });
    }

    graph::OpGraph graph_;
    cost::Machine machine_;
    plan::Problem problem_;
    GroupGraph groups_;
    plan::Strategy start_;
    std::vector<const Move*> moves_;
};

TEST_F(Walks, GiveTheirBestStrategyOnceAndItIsWorthWhatTheySay) {
    const auto evaluator = plan::make_evaluator(problem_, plan::Scheduler::rank);
    ChainRunner runner = this->runner();
    EXPECT_EQ(runner.score().value, evaluator->evaluate(start_).value);
    const ChainRunner::Steps steps = walk(runner, 400);
    EXPECT_EQ(steps.proposals, 400);
    EXPECT_GT(steps.acceptances, 0);
    const std::optional<plan::Strategy> best = runner.take_best();
    ASSERT_TRUE(best);
    EXPECT_EQ(plan::find_fault(problem_, *best), std::nullopt);
    EXPECT_LT(evaluator->evaluate(*best).value, evaluator->evaluate(start_).value);
    EXPECT_LE(evaluator->evaluate(*best).value, runner.score().value);
    EXPECT_EQ(runner.take_best(), std::nullopt);
}

TEST_F(Walks, AreTheSameInOneGoAndInMany) {
    ChainRunner one = runner();
    ChainRunner many = runner();
    walk(one, 300);
    for (int i = 0; i < 30; ++i) walk(many, 10);
    EXPECT_EQ(one.score(), many.score());
    EXPECT_EQ(one.take_best(), many.take_best());
}

TEST_F(Walks, StopBetweenProposals) {
    ChainRunner runner = this->runner();
    int asked = 0;
    const auto steps = runner.walk(moves_, 1e-3, 100, [&] { return ++asked > 5; });
    EXPECT_EQ(steps.proposals, 5);
}

TEST_F(Walks, GoBackWhereTheyAreSent) {
    ChainRunner runner = this->runner();
    const plan::Score before = runner.score();
    walk(runner, 200);
    ASSERT_NE(runner.score(), before);
    runner.restart(start_);
    EXPECT_EQ(runner.score(), before);
    EXPECT_TRUE(runner.take_best());  // of the walk before
}

}  // namespace
}  // namespace partita::search
