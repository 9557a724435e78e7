// SPDX-License-Identifier: Apache-2.0
#include "search/auto_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plan/plan_file.h"
#include "plan/verify.h"
#include "search/engine.h"
#include "search/searchers.h"
#include "search/seed_search.h"
#include "tests/plan/small_problems.h"
#include "tests/support/fake_clock.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;
using testing::IsEmpty;

ProblemOptions training() {
    return {.mode = plan::Mode::training, .objective = plan::Objective::step_time};
}

EngineOptions budget(std::int64_t evaluations, const std::string& searcher = "auto") {
    EngineOptions options;
    options.searchers = {searcher};
    options.evaluations = evaluations;
    return options;
}

EngineOptions no_budget(int threads = 1, std::uint64_t seed = 1) {
    EngineOptions options;
    options.searchers = {"auto"};
    options.threads = threads;
    options.seed = seed;
    return options;
}

std::vector<std::string> quick_searchers() {
    std::vector<std::string> names;
    for (const SearcherRow& row : searcher_table()) {
        if (row.in_auto) names.emplace_back(row.name);
    }
    return names;
}

/// Evaluations of all quick searchers together.
std::int64_t quick_evaluations(const Problem& problem) {
    EngineOptions options;
    options.searchers = quick_searchers();
    return search(problem, options).evaluations;
}

TEST(AutoSearch, IsNeverWorseThanAQuickSearcherAndOftenBetter) {
    int better = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = seed % 2 == 0 ? support::random_network(random, 25)
                                                   : support::random_workload(random, 25);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        const Problem problem =
            plan::make_problem(graph, machine, seed % 2 == 0 ? training() : ProblemOptions{});
        const std::int64_t enough = 2 * quick_evaluations(problem) + 2;
        for (const SearchResult& result :
             {search(problem, budget(enough)), search(problem, no_budget())}) {
            for (const std::string& name : quick_searchers()) {
                const SearchResult other = search(problem, budget(enough, name));
                EXPECT_FALSE(other.evaluation.better_than(result.evaluation)) << name;
            }
            EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
            if (result.searcher == "mcmc") ++better;
        }
    }
    EXPECT_GE(better, 3);
}

TEST(AutoSearch, GoesOnWithMcmcForAllOfTheBudget) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    const std::int64_t more = AutoOptions{}.most_proposals + 1'000;
    const SearchResult result = search(problem, budget(more));
    EXPECT_EQ(result.evaluations, more);
    EXPECT_EQ(result.status, Status::budget_exhausted);
    EXPECT_TRUE(result.acceptance_rate);
}

TEST(AutoSearch, EndsByItselfWithoutABudget) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    const SearchResult result = search(problem, no_budget());
    EXPECT_EQ(result.status, Status::found);
    EXPECT_TRUE(result.acceptance_rate);
    EXPECT_LE(result.evaluations, AutoOptions{}.most_proposals + quick_evaluations(problem) + 4);
}

// The program's default limit is a guard and nothing that auto should use up.
TEST(AutoSearch, EndsBeforeALimitThatNobodyAskedFor) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    const auto evaluations = [&](bool default_budget) {
        // The engine asks for the time a few times per evaluation.
        const support::FakeClock clock(std::chrono::milliseconds(1));
        EngineOptions options = no_budget();
        options.time_limit = std::chrono::seconds(20);
        options.default_budget = default_budget;
        options.clock = &clock;
        const SearchResult result = search(problem, options);
        EXPECT_EQ(result.status, default_budget ? Status::found : Status::budget_exhausted);
        return result.evaluations;
    };
    const std::int64_t by_default = evaluations(true);
    EXPECT_EQ(by_default, search(problem, no_budget()).evaluations);
    EXPECT_LT(by_default, evaluations(false));
}

TEST(AutoSearch, GivesTheSamePlanWithAnyNumberOfThreads) {
    Random random(5);
    const graph::OpGraph graph = support::random_network(random, 20);
    const cost::Machine machine = plan::switched_machine(4, {0, 0, 1, 1});
    const Problem problem = plan::make_problem(graph, machine, training());
    const auto text = [&](EngineOptions options) {
        return plan::to_json(make_plan(problem, search(problem, std::move(options))));
    };
    EXPECT_EQ(text(no_budget(1, 3)), text(no_budget(2, 3)));
    EXPECT_EQ(text(no_budget(1, 3)), text(no_budget(5, 3)));
    EXPECT_NE(text(no_budget(1, 3)), text(no_budget(1, 4)));
}

// Where one evaluation is expensive: what the three can propose is worth more than random moves.
TEST(AutoSearch, IsNoWorseThanDataParallelAndExpertWithASmallBudget) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    std::int64_t all = 0;
    for (const std::string name : {"single-device", "data-parallel", "expert"}) {
        all += search(problem, budget(100, name)).evaluations;
    }
    const SearchResult result = search(problem, budget(all));
    const SearchResult three = search(problem, budget(3));
    for (const std::string name : {"single-device", "data-parallel", "expert"}) {
        EXPECT_LE(result.evaluation.value, search(problem, budget(all, name)).evaluation.value);
        EXPECT_LE(three.evaluation.value, search(problem, budget(1, name)).evaluation.value);
    }
    EXPECT_EQ(three.evaluations, 3);
}

TEST(AutoSearch, LeavesMcmcOutWhereAProposalCostsTooMuch) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    const auto make = [](Engine& /*engine*/) -> std::unique_ptr<Searcher> {
        return std::make_unique<AutoSearch>(AutoOptions{.work = 100});
    };
    const SearcherRow row{.name = "auto", .summary = "", .options = "", .make = make};
    const SearchResult little = Engine(problem, no_budget()).run(std::vector{row});
    EXPECT_EQ(little.status, Status::found);
    EXPECT_LT(little.evaluations, AutoOptions{}.fewest_proposals);
    EXPECT_FALSE(little.acceptance_rate);
    // A budget that is asked for is used all the same.
    EXPECT_EQ(Engine(problem, budget(100)).run(std::vector{row}).evaluations, 100);
}

}  // namespace
}  // namespace partita::search
