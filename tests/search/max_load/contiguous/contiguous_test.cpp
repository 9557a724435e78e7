// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/contiguous/contiguous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "plan/evaluation/max_load.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/public_workload.h"
#include "tests/plan/small_problems.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/support/draws.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpGraph;
using graph::OpId;
using plan::Problem;
using plan::ProblemOptions;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

EngineOptions contiguous(int threads = 1) {
    EngineOptions options;
    options.searchers = {"contiguous"};
    options.threads = threads;
    return options;
}

ProblemOptions throughput() {
    ProblemOptions options;
    options.objective = plan::Objective::throughput;
    return options;
}

/// With so few ideals allowed that only orders are tried.
SearchResult cut_orders_only(const Problem& problem) {
    const SearcherRow row{
        .name = "orders",
        .summary = "",
        .make = [](Engine& /*engine*/) -> std::unique_ptr<Searcher> {
            return std::make_unique<Contiguous>(ContiguousOptions{.most_ideals = 1});
        }};
    return search(problem, {}, std::span(&row, 1));
}

// REFERENCES 8, column "DP = contiguous optimum".
struct Published {
    const char* file;
    double milliseconds;
};
class PublishedWorkload : public testing::TestWithParam<Published> {};

TEST_P(PublishedWorkload, HasThePublishedContiguousOptimum) {
    const plan::PublicWorkload of =
        plan::public_workload(std::string("throughput/") + GetParam().file);
    const Problem problem = plan::make_problem(of.graph, of.machine, of.options);
    const SearchResult result = search(problem, contiguous(2));
    const double value = static_cast<double>(result.evaluation.value.raw()) * 1e-9;
    EXPECT_NEAR(value / GetParam().milliseconds, 1, 1e-7);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("no contiguous plan is better")));
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

std::string test_name(const testing::TestParamInfo<Published>& of) {
    std::string name = of.param.file;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Reference, PublishedWorkload,
                         testing::Values(Published{"layer_bert24_inference", 17.78990625},
                                         Published{"layer_bert24_training", 41.7458125},
                                         Published{"layer_gnmt_inference", 32.9106582031},
                                         Published{"layer_gnmt_training", 107.0044140625},
                                         Published{"layer_resnet50_inference", 33.7746660156},
                                         Published{"layer_resnet50_training", 78.6318125},
                                         Published{"op_bert_l-3_inference", 27.9185676799},
                                         Published{"op_bert_l-3_training", 65.3031491221},
                                         Published{"op_resnet50_inference", 124.3488497740},
                                         Published{"op_resnet50_training", 255.1944164522}),
                         test_name);

TEST(Contiguous, EqualsAllContiguousAssignmentsOfSmallWorkloads) {
    int infeasible = 0;
    int with_several_devices = 0;
    for (const std::uint64_t seed : support::seeds(150)) {
        Random random(seed);
        const SmallWorkload small = small_workload(random);
        const Problem problem = throughput_of(small);
        SCOPED_TRACE(seed);
        const std::optional<Time> best = best_contiguous_by_enumeration(problem);
        const SearchResult result = search(problem, contiguous());
        if (!expect_best(problem, result, best)) {
            ++infeasible;
            continue;
        }
        EXPECT_TRUE(is_contiguous(problem, result.strategy)) << "seed " << seed;
        const auto busy =
            std::count_if(result.evaluation.devices.begin(), result.evaluation.devices.end(),
                          [](const auto& use) { return use.busy > Time{0}; });
        if (busy > 1) ++with_several_devices;
    }
    EXPECT_GT(infeasible, support::draws(5));
    EXPECT_LT(infeasible, support::draws(75));
    EXPECT_GT(with_several_devices, support::draws(50));
}

// Asked for contiguous plans only, the bound is that of these.
TEST(Contiguous, IsOptimalAmongContiguousPlansWhereOnlyTheseAreAskedFor) {
    for (const std::uint64_t seed : support::seeds(20)) {
        Random random(seed);
        const OpGraph graph = support::random_workload(random, 12);
        const cost::Machine machine = plan::switched_machine(3);
        const Problem problem = plan::make_problem(graph, machine, throughput());
        EngineOptions options = contiguous();
        options.contiguous = true;
        const SearchResult result = search(problem, options);
        EXPECT_EQ(result.status, Status::optimal);
        EXPECT_EQ(result.lower_bound, result.evaluation.value);
        EXPECT_EQ(result.evaluation.value, search(problem, contiguous()).evaluation.value);
    }
}

TEST(Contiguous, ValueDoesNotDependOnTheNumbersOfOps) {
    for (const std::uint64_t seed : support::seeds(5)) {
        Random random(seed);
        const OpGraph graph = support::random_workload(random, 18);
        const cost::Machine machine = plan::switched_machine(4);
        const Problem problem = plan::make_problem(graph, machine, throughput());
        const Time exact = search(problem, contiguous()).evaluation.value;
        const Time along_orders = cut_orders_only(problem).evaluation.value;
        for (int i = 0; i < 3; ++i) {
            const OpGraph other = renumbered(graph, random);
            const Problem same = plan::make_problem(other, machine, throughput());
            EXPECT_EQ(search(same, contiguous()).evaluation.value, exact) << "seed " << seed;
            EXPECT_EQ(cut_orders_only(same).evaluation.value, along_orders) << "seed " << seed;
        }
    }
}

TEST(Contiguous, GivesTheSamePlanWithAnyNumberOfThreads) {
    for (const std::uint64_t seed : support::seeds(5)) {
        Random random(seed);
        const OpGraph graph = support::random_workload(random, 18);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{1'000});
        const Problem problem = plan::make_problem(graph, machine, throughput());
        const SearchResult one = search(problem, contiguous(1));
        for (const int threads : {2, 3}) {
            const SearchResult other = search(problem, contiguous(threads));
            EXPECT_EQ(other.strategy, one.strategy);
            EXPECT_EQ(other.evaluation.value, one.evaluation.value);
            EXPECT_EQ(other.notes, one.notes);
        }
    }
}

/// Parallel chains of random times, nothing between them.
OpGraph chains(int count, int length, Random& random) {
    plan::WorkloadBuilder build;
    for (int chain = 0; chain < count; ++chain) {
        std::string before;
        for (int i = 0; i < length; ++i) {
            const std::string name = std::to_string(chain) + "." + std::to_string(i);
            const auto time = static_cast<std::int64_t>(10 + random.below(90));
            const auto copy = static_cast<std::int64_t>(1 + random.below(20));
            if (before.empty()) {
                build.node(name, time, {}, copy, Bytes{1});
            } else {
                build.node(name, time, {before.c_str()}, copy, Bytes{1});
            }
            before = name;
        }
    }
    return build.build();
}

/// The largest resident memory so far, in kB; begin: counted anew, where the system lets us.
long peak_kilobytes(bool begin) {
    if (begin) std::ofstream("/proc/self/clear_refs") << "5";
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
    }
    return 0;
}

// 14^4 ideals. A table of all pairs of these, 36 million, would take 1.1 GB at 32 bytes each.
TEST(Contiguous, CopesWithFortyThousandIdeals) {
    Random random(3);
    const OpGraph graph = chains(4, 13, random);
    const cost::Machine machine = plan::switched_machine(6);
    ProblemOptions options = throughput();
    options.constraints.memory_limit = Bytes{12};
    const Problem problem = plan::make_problem(graph, machine, options);
    const long before = peak_kilobytes(/*begin=*/true);
    const SearchResult result = search(problem, contiguous(2));
    EXPECT_LT(peak_kilobytes(/*begin=*/false) - before, 100'000);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("over 38416 ideals")));
    EXPECT_TRUE(is_contiguous(problem, result.strategy));
    EXPECT_LE(result.evaluation.value, cut_orders_only(problem).evaluation.value);
    EXPECT_GE(result.evaluation.value, result.lower_bound);
}

TEST(Contiguous, SaysWhenThereAreTooManyIdeals) {
    Random random(3);
    const OpGraph graph = chains(10, 20, random);
    const cost::Machine machine = plan::switched_machine(6);
    ProblemOptions options = throughput();
    options.constraints.memory_limit = Bytes{40};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, contiguous());
    EXPECT_EQ(result.status, Status::found);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("ideals, too many")));
    EXPECT_TRUE(is_contiguous(problem, result.strategy));
    EXPECT_GT(result.lower_bound, Time{0});
    EXPECT_TRUE(result.gap);
}

//     a(1 byte) ─▶ b(2 bytes) ─▶ c(1 byte)
// Two devices of 2 bytes: {a c} {b} fits, but is not contiguous.
TEST(Contiguous, SaysThatNoContiguousPlanFits) {
    const OpGraph graph = plan::WorkloadBuilder()
                              .node("a", 1, {}, 1, Bytes{1})
                              .node("b", 1, {"a"}, 1, Bytes{2})
                              .node("c", 1, {"b"}, 1, Bytes{1})
                              .build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options = throughput();
    options.constraints.memory_limit = Bytes{2};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, contiguous());
    EXPECT_EQ(result.status, Status::infeasible);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("no contiguous plan fits")));
    EXPECT_THAT(result.shortage, HasSubstr("bytes short"));
    EngineOptions other;
    other.searchers = {"heft"};
    EXPECT_NE(search(problem, other).status, Status::infeasible);
}

// a ─▶ b ─▶ c with a and c together, on a device that b may not use: no piece can hold all three.
TEST(Contiguous, SaysThatItsPlanIsNotContiguousWhereNoneIs) {
    const OpGraph graph =
        plan::WorkloadBuilder().node("a", 1).node("b", 1, {"a"}).node("c", 1, {"b"}).build();
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options = throughput();
    options.constraints.together = {{OpId(0U), OpId(2U)}};
    options.constraints.allowed = {{0}, {1}, {}};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, contiguous());
    EXPECT_EQ(result.status, Status::found);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("no plan is contiguous")));
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

// Fifteen devices with an op of their own: 2^15 sets of used devices.
TEST(Contiguous, TakesDevicesInTurnWhereAllDiffer) {
    Random random(5);
    const OpGraph graph = chains(1, 30, random);
    const cost::Machine machine = plan::switched_machine(15);
    ProblemOptions options = throughput();
    options.constraints.allowed.resize(graph.op_count());
    for (int d = 0; d < 15; ++d) options.constraints.allowed[2 * static_cast<std::size_t>(d)] = {d};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, contiguous());
    EXPECT_EQ(result.status, Status::found);
    EXPECT_THAT(result.notes, ElementsAre(HasSubstr("in the order of the devices")));
    EXPECT_TRUE(is_contiguous(problem, result.strategy));
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

// The claim concerns contiguous plans, so the status must not be "optimal":
//     a(4) ─▶ b(6) ─▶ c(2), nothing to send: {a c} {b} takes 6, {a} {b c} or {a b} {c} more
TEST(Contiguous, DoesNotCallAPlanOptimalThatOthersBeat) {
    const OpGraph graph = plan::WorkloadBuilder()
                              .node("a", 4, {}, 0)
                              .node("b", 6, {"a"}, 0)
                              .node("c", 2, {"b"}, 0)
                              .build();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(graph, machine, throughput());
    const SearchResult result = search(problem, contiguous());
    EXPECT_EQ(result.evaluation.value, microseconds(8));
    EXPECT_EQ(result.status, Status::found);
    EXPECT_EQ(result.lower_bound, microseconds(6));
}

// One layer after the other in stretches: most of what four devices can gain over one.
TEST(Contiguous, CutsAChainOfRealOpsIntoStages) {
    const OpGraph graph = support::chain_network(24);
    cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, throughput());
    const SearchResult result = search(problem, contiguous());
    EXPECT_EQ(result.status, Status::found);
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
    EXPECT_LE(result.evaluation.value, *result.baselines.at(0).value);
}

}  // namespace
}  // namespace partita::search
