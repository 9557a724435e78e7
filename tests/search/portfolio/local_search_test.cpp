// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/composed_searchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "cost/cost_model.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "search/portfolio/search_run.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;
using testing::IsEmpty;

EngineOptions local_search(std::optional<std::int64_t> evaluations = {}, int threads = 1) {
    EngineOptions options;
    options.searchers = {"local-search"};
    options.evaluations = evaluations;
    options.threads = threads;
    return options;
}

ProblemOptions throughput() {
    return {.objective = plan::Objective::throughput};
}

// REFERENCES 8: the least of all columns but the last, and the best known plan of any kind;
// milliseconds.
struct Published {
    const char* file;
    double others;
    double best;
};
class PublishedThroughput : public testing::TestWithParam<Published> {};

TEST_P(PublishedThroughput, IsWithinAHundredthOfTheBestKnownAndNoWorseThanTheOthers) {
    const plan::PublicWorkload of =
        plan::public_workload(std::string("throughput/") + GetParam().file);
    const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
    const SearchResult result = search(problem, local_search(400'000));
    const double value = static_cast<double>(result.evaluation.value.raw()) * 1e-9;
    EXPECT_LE(value, 1.01 * GetParam().best);
    EXPECT_LE(value, (1 + 1e-7) * GetParam().others);
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    Reference, PublishedThroughput,
    testing::Values(Published{"layer_bert24_inference", 17.777625, 17.71471875},
                    Published{"layer_bert24_training", 39.9431638794, 39.7895388794},
                    Published{"layer_gnmt_inference", 31.7827246094, 31.6873105469},
                    Published{"layer_gnmt_training", 90.9476093750, 88.4622421875},
                    Published{"layer_resnet50_inference", 33.7746660156, 33.3805976563},
                    Published{"layer_resnet50_training", 78.6318125, 76.3631074219},
                    Published{"op_bert_l-3_inference", 27.5740960281, 21.9083761057},
                    Published{"op_bert_l-3_training", 65.3031491221, 54.2073991917},
                    Published{"op_resnet50_inference", 124.3488497740, 124.3488497740},
                    Published{"op_resnet50_training", 255.1944164522, 255.1944164522}),
    [](const testing::TestParamInfo<Published>& of) {
        std::string name = of.param.file;
        std::replace(name.begin(), name.end(), '-', '_');
        return name;
    });

TEST(LocalSearch, FindsTheBestOfAllAssignmentsOfSmallWorkloads) {
    int infeasible = 0;
    int not_contiguous = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        Random random(seed);
        const SmallWorkload small = small_workload(random);
        const Problem problem = throughput_of(small);
        SCOPED_TRACE(seed);
        const std::optional<Time> best = best_by_enumeration(problem);
        const SearchResult result = search(problem, local_search());
        if (!expect_best(problem, result, best)) {
            ++infeasible;
            continue;
        }
        if (!is_contiguous(problem, result.strategy)) ++not_contiguous;
    }
    EXPECT_GT(infeasible, 3);
    EXPECT_LT(infeasible, 50);
    EXPECT_GT(not_contiguous, 4);
}

TEST(LocalSearch, GivesTheSamePlanOfAWorkloadWithAnyNumberOfThreads) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 60);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{1'500});
        const Problem problem = plan::make_problem(graph, machine, throughput());
        const std::int64_t budget = 54'321;
        const SearchResult one = search(problem, local_search(budget, 1));
        EXPECT_LE(one.evaluations, budget);
        for (const int threads : {2, 3}) {
            const SearchResult other = search(problem, local_search(budget, threads));
            EXPECT_EQ(other.strategy, one.strategy);
            EXPECT_EQ(other.evaluations, one.evaluations);
        }
    }
}

TEST(LocalSearch, EndsByItselfWithoutABudget) {
    Random random(3);
    const graph::OpGraph workload = support::random_workload(random, 20);
    const graph::OpGraph chain = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions training;
    training.mode = plan::Mode::training;
    training.objective = plan::Objective::step_time;
    for (const Problem& problem : {plan::make_problem(workload, machine, throughput()),
                                   plan::make_problem(chain, machine, training)}) {
        const SearchResult result = search(problem, local_search());
        EXPECT_EQ(result.status, Status::found);
        EXPECT_TRUE(result.acceptance_rate);
    }
}

TEST(LocalSearch, EndsWhereNothingMayMove) {
    Random random(3);
    const graph::OpGraph graph = support::random_workload(random, 20);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options = throughput();
    options.constraints.allowed.assign(graph.op_count(), {2});
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, local_search(1'000));
    EXPECT_NE(result.status, Status::infeasible);
    EXPECT_LT(result.evaluations, 100);
}

/// Of real ops, whose plans it improves by the moves of mcmc.
TEST(LocalSearch, ImprovesPlansOfNetworks) {
    int better = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 25);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        ProblemOptions kind;
        kind.mode = plan::Mode::training;
        kind.objective = plan::Objective::step_time;
        const Problem problem = plan::make_problem(graph, machine, kind);
        const SearchResult few = search(problem, local_search(60));
        const SearchResult more = search(problem, local_search(3'000));
        EXPECT_FALSE(few.evaluation.better_than(more.evaluation));
        EXPECT_THAT(plan::verify(problem, make_plan(problem, more)), IsEmpty());
        if (more.searcher == "local-search") ++better;
        EXPECT_EQ(more.strategy, search(problem, local_search(3'000, 3)).strategy);
    }
    EXPECT_GE(better, 3);
}

}  // namespace
}  // namespace partita::search
