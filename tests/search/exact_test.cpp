// SPDX-License-Identifier: Apache-2.0
#include "search/exact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "plan/plan_file.h"
#include "plan/verify.h"
#include "search/engine.h"
#include "search/searchers.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"
#include "tests/search/contiguous_cases.h"
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

EngineOptions exact(int threads = 1) {
    EngineOptions options;
    options.searchers = {"exact"};
    options.threads = threads;
    return options;
}

/// Branch and bound alone for about so long.
SearchResult for_operations(const Problem& problem, std::int64_t operations) {
    static std::int64_t budget;
    budget = operations;
    const SearcherRow row{.name = "exact",
                          .summary = "",
                          .options = "",
                          .make = [](Engine& /*engine*/) -> std::unique_ptr<Searcher> {
                              return std::make_unique<Exact>(ExactOptions{.operations = budget});
                          }};
    return Engine(problem, {}).run(std::span(&row, 1));
}

TEST(Exact, EqualsAllAssignmentsOfSmallWorkloadsAndSaysSo) {
    int infeasible = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
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
    EXPECT_GT(infeasible, 5);
    EXPECT_LT(infeasible, 150);
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
    const SearchResult more = for_operations(problem, 3'000'000'000);
    EXPECT_EQ(little.status, Status::found);
    EXPECT_GT(more.lower_bound, little.lower_bound);
    EXPECT_GE(more.evaluation.value, more.lower_bound);
    EXPECT_LE(more.evaluation.value, little.evaluation.value);
}

TEST(Exact, GivesTheSameWithAnyNumberOfThreads) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 14);
        const cost::Machine machine = support::random_machine(random, 3, Bytes{1'000});
        const Problem problem = plan::make_problem(graph, machine, throughput());
        const SearchResult one = search(problem, exact(1));
        const SearchResult two = search(problem, exact(2));
        EXPECT_EQ(one.strategy, two.strategy);
        EXPECT_EQ(one.lower_bound, two.lower_bound);
        EXPECT_EQ(one.status, two.status);
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
