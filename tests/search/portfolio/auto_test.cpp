// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/composed_searchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "importers/onnx/onnx_importer.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/small_problems.h"
#include "tests/support/fake_clock.h"
#include "tests/support/paths.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;
using testing::ElementsAre;
using testing::HasSubstr;
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

// Where nobody asks for a limit, how fast the host is changes nothing but whether the guard cuts
// the search.
TEST(AutoSearch, FindsTheSameOnSlowHostsUnlessTheGuardCutsIt) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    const auto result_where_asking_takes = [&](std::chrono::milliseconds time) {
        // The engine asks for the time a few times per evaluation.
        const support::FakeClock clock(time);
        EngineOptions options = no_budget();
        options.default_budget = true;
        options.clock = &clock;
        return search(problem, options);
    };
    const SearchResult free = search(problem, no_budget());
    const SearchResult slow = result_where_asking_takes(std::chrono::milliseconds(1));
    EXPECT_EQ(slow.status, Status::found);
    EXPECT_EQ(slow.evaluations, free.evaluations);
    EXPECT_EQ(slow.strategy, free.strategy);
    EXPECT_THAT(slow.notes, IsEmpty());
    const SearchResult cut = result_where_asking_takes(std::chrono::milliseconds(100));
    EXPECT_EQ(cut.status, Status::budget_exhausted);
    EXPECT_LT(cut.evaluations, free.evaluations);
    EXPECT_THAT(cut.notes, ElementsAre(HasSubstr("cut by the clock after 60 s")));
}

template <int rounds>
std::unique_ptr<Searcher> auto_of_rounds(Engine& /*engine*/) {
    return make_auto({.most_proposals = 1'000, .most_rounds = rounds});
}

TEST(AutoSearch, GoesOnWhileTheLastQuarterImproved) {
    int went_on = 0;
    for (const std::uint64_t seed : {1, 4, 7}) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 150);
        const cost::Machine machine = support::random_machine(random, 6, Bytes{10'000'000});
        const Problem problem = plan::make_problem(graph, machine, training());
        const auto run = [&](const SearcherRow& row) {
            return search(problem, no_budget(1, seed), std::span(&row, 1));
        };
        const SearchResult once = run({.name = "auto", .make = auto_of_rounds<1>});
        const SearchResult on = run({.name = "auto", .make = auto_of_rounds<1'000>});
        EXPECT_EQ(on.status, Status::found);
        EXPECT_FALSE(once.evaluation.better_than(on.evaluation));
        if (on.evaluations > once.evaluations) ++went_on;
    }
    EXPECT_GE(went_on, 1);
    EXPECT_LT(went_on, 3);
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
        return make_auto({.work = 100});
    };
    const SearcherRow row{.name = "auto", .summary = "", .make = make};
    const SearchResult little = search(problem, no_budget(), std::vector{row});
    EXPECT_EQ(little.status, Status::found);
    EXPECT_LT(little.evaluations, AutoOptions{}.fewest_proposals);
    EXPECT_FALSE(little.acceptance_rate);
    // A budget that is asked for is used all the same.
    EXPECT_EQ(search(problem, budget(100), std::vector{row}).evaluations, 100);
}

// Plans for three of eight devices were half as slow again: only halves and quarters of the machine
// were tried.
TEST(AutoSearch, PlansForDevicesThatConstraintsLeaveAsForAMachineOfThem) {
    const auto model =
        importers::import_onnx(tests::repository() / "examples/models/alexnet.onnx", {.batch = 96});
    const graph::OpGraph& graph = model.graph;
    const cost::Machine three = plan::switched_machine(3, {0, 0, 0});
    const cost::Machine eight = plan::switched_machine(8, {0, 0, 0, 0, 0, 0, 0, 0});
    ProblemOptions fixed = training();
    fixed.constraints.allowed.assign(graph.op_count(), {0, 1, 2});
    const auto value = [&](const cost::Machine& machine, const ProblemOptions& options) {
        const Problem problem = plan::make_problem(graph, machine, options);
        return search(problem, budget(1'000)).evaluation.value;
    };
    EXPECT_LE(value(eight, fixed) / value(three, training()), 1.05);
}

}  // namespace
}  // namespace partita::search
