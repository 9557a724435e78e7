// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/exact/exact.h"
#include "search/portfolio/composed_searchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "search/max_load/exact/highs.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/support/draws.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ProblemOptions throughput() {
    ProblemOptions options;
    options.objective = plan::Objective::throughput;
    return options;
}

EngineOptions exact(int threads = 1, ExactEngine engine = ExactEngine::both) {
    EngineOptions options;
    options.searchers = {"exact"};
    options.threads = threads;
    options.exact_engine = engine;
    return options;
}

/// Those that are in this build.
std::vector<ExactEngine> engines() {
    std::vector<ExactEngine> all{ExactEngine::own, ExactEngine::both};
    if (!highs_version().text.empty()) all.push_back(ExactEngine::highs);
    return all;
}

/// Each engine for about so long.
SearchResult for_operations(const Problem& problem, std::int64_t operations,
                            ExactEngine engine = ExactEngine::own) {
    static std::int64_t budget;
    budget = operations;
    const SearcherRow row{.name = "exact", .summary = "", .make = [](Engine& of) {
                              return make_exact(of,
                                                {.operations = budget, .highs_operations = budget});
                          }};
    return search(problem, exact(1, engine), std::span(&row, 1));
}

TEST(TargetSchedule, AsksForLessAfterATargetThatTookTooLongAndThenForLonger) {
    TargetSchedule schedule;
    const std::int64_t first = schedule.operations();
    EXPECT_EQ(schedule.target(0, 1'000), 500);
    schedule.took_too_long();
    EXPECT_EQ(schedule.target(0, 1'000), 125);
    schedule.was_proven();
    EXPECT_EQ(schedule.target(125, 1'125), 375);
    EXPECT_EQ(schedule.operations(), first);
    while (schedule.operations() == first) schedule.took_too_long();
    EXPECT_EQ(schedule.target(0, 1'000), 1'000);
}

TEST(TargetSchedule, LiesAboveTheBoundAndNotAboveTheValue) {
    TargetSchedule schedule;
    Random random(1);
    for (int i = 0; i < 1'000; ++i) {
        const auto bound = static_cast<std::int64_t>(random.below(1'000'000'000));
        const auto value = bound + 1 + static_cast<std::int64_t>(random.below(1'000'000));
        const std::int64_t target = schedule.target(bound, value);
        ASSERT_GT(target, bound);
        ASSERT_LE(target, value);
        if (random.below(2) == 0) schedule.took_too_long();
        if (random.below(2) == 0) schedule.was_proven();
    }
}

TEST(Exact, EqualsAllAssignmentsOfSmallWorkloadsAndSaysSo) {
    int infeasible = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        Random random(seed);
        const SmallWorkload small = small_workload(random);
        const Problem problem = throughput_of(small);
        SCOPED_TRACE(seed);
        const std::optional<Time> best = best_by_enumeration(problem);
        const SearchResult result = search(problem, exact());
        if (!expect_best(problem, result, best)) {
            ++infeasible;
            continue;
        }
        EXPECT_EQ(result.status, Status::optimal);
        EXPECT_EQ(result.lower_bound, *best);
    }
    EXPECT_GT(infeasible, support::draws(5));
    EXPECT_LT(infeasible, support::draws(150));
}

/// HiGHS alone: its plan is the best, what it says holds, and only integers make it optimal.
TEST(Exact, WithHighsEqualsAllAssignmentsAndKeepsItsBoundApart) {
    if (highs_version().text.empty()) GTEST_SKIP() << "no HiGHS: " << highs_version().missing;
    int numerical = 0;
    for (const std::uint64_t seed : support::seeds(300)) {
        Random random(seed);
        const SmallWorkload small = small_workload(random);
        const Problem problem = throughput_of(small);
        SCOPED_TRACE(seed);
        const std::optional<Time> best = best_by_enumeration(problem);
        const SearchResult result = search(problem, exact(1, ExactEngine::highs));
        if (!expect_best(problem, result, best)) continue;
        EXPECT_LE(result.lower_bound, *best);
        EXPECT_EQ(result.status == Status::optimal, result.lower_bound == *best);
        if (!result.numerical_bound) continue;
        ++numerical;
        EXPECT_EQ(result.status, Status::found);
        EXPECT_EQ(result.numerical_bound->by, "HiGHS " + highs_version().text);
        EXPECT_GT(result.numerical_bound->value, result.lower_bound);
        EXPECT_LE(result.numerical_bound->value, *best);
        EXPECT_LT(*result.numerical_bound->gap, 3e-6);
    }
    EXPECT_GT(numerical, support::draws(30));
}

TEST(Exact, AsksHighsWhatTheTreeLeavesOpen) {
    if (highs_version().text.empty()) GTEST_SKIP() << "no HiGHS: " << highs_version().missing;
    const plan::PublicWorkload of = plan::public_workload("throughput/layer_bert24_training");
    const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
    const SearchResult own = for_operations(problem, 2'000'000'000, ExactEngine::own);
    const SearchResult both = for_operations(problem, 2'000'000'000, ExactEngine::both);
    EXPECT_FALSE(own.numerical_bound);
    EXPECT_EQ(both.lower_bound, own.lower_bound);
    ASSERT_TRUE(both.numerical_bound);
    EXPECT_GT(both.numerical_bound->value, own.lower_bound);
    EXPECT_LE(both.numerical_bound->value, both.evaluation.value);
}

TEST(Exact, SaysWhenHighsIsAskedForAndNotThere) {
    if (!highs_version().text.empty()) GTEST_SKIP() << "HiGHS is there";
    Random random(1);
    const SmallWorkload small = small_workload(random);
    const Problem problem = throughput_of(small);
    EXPECT_THROW(static_cast<void>(search(problem, exact(1, ExactEngine::highs))), UsageError);
}

/// REFERENCES 8: proven by a MILP there.
class ProvenWorkload : public testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(ProvenWorkload, IsProvenHereToo) {
    const auto [file, milliseconds] = GetParam();
    const plan::PublicWorkload of = plan::public_workload(std::string("throughput/") + file);
    const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
    const SearchResult result = search(problem, exact());
    EXPECT_EQ(result.status, Status::optimal);
    EXPECT_NEAR(static_cast<double>(result.evaluation.value.raw()) * 1e-9 / milliseconds, 1, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(Reference, ProvenWorkload,
                         testing::Values(std::pair{"op_bert_l-3_inference", 21.9083761057},
                                         std::pair{"op_bert_l-3_training", 54.2073991917}),
                         [](const auto& of) { return "case" + std::to_string(of.index); });

TEST(Exact, EndsByItselfWithABoundThatItRaised) {
    Random random(7);
    const graph::OpGraph graph = support::random_workload(random, 60);
    const cost::Machine machine = plan::switched_machine(5);
    const Problem problem = plan::make_problem(graph, machine, throughput());
    const SearchResult little = for_operations(problem, 1);
    const SearchResult more = for_operations(problem, 1'000'000'000);
    EXPECT_EQ(little.status, Status::found);
    EXPECT_GT(more.lower_bound, little.lower_bound);
    EXPECT_GE(more.evaluation.value, more.lower_bound);
    EXPECT_LE(more.evaluation.value, little.evaluation.value);
}

TEST(Exact, GivesTheSameWithAnyNumberOfThreads) {
    for (const std::uint64_t seed : support::seeds(5)) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 14);
        const cost::Machine machine = support::random_machine(random, 3, Bytes{1'000});
        const Problem problem = plan::make_problem(graph, machine, throughput());
        for (const ExactEngine engine : engines()) {
            const SearchResult one = search(problem, exact(1, engine));
            const SearchResult two = search(problem, exact(2, engine));
            EXPECT_EQ(one.strategy, two.strategy);
            EXPECT_EQ(one.lower_bound, two.lower_bound);
            EXPECT_EQ(one.status, two.status);
            ASSERT_EQ(one.numerical_bound.has_value(), two.numerical_bound.has_value());
            if (!one.numerical_bound) continue;
            EXPECT_EQ(one.numerical_bound->value, two.numerical_bound->value);
        }
    }
}

TEST(Exact, ProvesThatNothingFits) {
    // Three of two bytes on two devices of three.
    const graph::OpGraph graph = plan::WorkloadBuilder()
                                     .node("a", 1, {}, 1, Bytes{2})
                                     .node("b", 1, {"a"}, 1, Bytes{2})
                                     .node("c", 1, {"b"}, 1, Bytes{2})
                                     .build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options = throughput();
    options.constraints.memory_limit = Bytes{3};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, exact());
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_THAT(result.notes, testing::Contains(HasSubstr("no placement fits")));
}

}  // namespace
}  // namespace partita::search
