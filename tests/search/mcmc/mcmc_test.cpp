// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/mcmc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "base/error.h"
#include "cost/machine/machine_file.h"
#include "importers/onnx/onnx_importer.h"
#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "plan/legality/config_legality.h"
#include "search/hybrid_parallel/data_parallel.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/named_axes.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"
#include "tests/support/paths.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using graph::OpId;
using graph::SoapClass;
using plan::DeviceSet;
using plan::Problem;
using plan::ProblemOptions;
using testing::IsEmpty;

ProblemOptions training() {
    return {.mode = plan::Mode::training, .objective = plan::Objective::step_time};
}

EngineOptions budget(std::int64_t evaluations, const std::string& searcher = "mcmc") {
    EngineOptions options;
    options.searchers = {searcher};
    options.evaluations = evaluations;
    return options;
}

/// Only moves between configs of the table, from everything on the first device.
std::unique_ptr<Searcher> make_tiny(Engine& /*engine*/) {
    McmcOptions options;
    options.hot = 0.05;
    options.moves = {"change-degrees", "change-devices", "swap-devices", "copy-config"};
    return std::make_unique<Mcmc>(options);
}

void expect_the_optimum(const graph::OpGraph& graph, std::int64_t evaluations) {
    const cost::Machine machine = plan::switched_machine(2);
    for (ProblemOptions options : {ProblemOptions{}, training()}) {
        options.constraints.unsplit = {SoapClass::attribute, SoapClass::reduction};
        const Problem problem = plan::make_problem(graph, machine, options);
        const GroupGraph groups(problem, make_groups(problem, Grouping::all));
        SearchSpace space(groups);
        const Enumerated all = enumerate(space);
        EXPECT_GT(all.strategies, 1'000);
        for (const std::uint64_t seed : {1, 2, 3}) {
            EngineOptions engine = budget(evaluations);
            engine.seed = seed;
            engine.start = plan::whole_ops(std::vector<int>(graph.op_count(), 0), options.policy);
            const SearcherRow row{.name = "mcmc", .summary = "", .make = make_tiny};
            const SearchResult result = search(problem, engine, std::vector{row});
            EXPECT_EQ(result.evaluation.value, all.best.value)
                << all.strategies << " strategies, seed " << seed;
        }
    }
}

TEST(Mcmc, FindsTheOptimumOfLeNetOnTwoDevices) {
    expect_the_optimum(lenet(), 2'000);
}

TEST(Mcmc, FindsTheOptimumOfATwoStepRnnOnTwoDevices) {
    expect_the_optimum(two_step_rnn(), 2'000);
}

TEST(Mcmc, IsNeverWorseThanAQuickSearcher) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 25);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        const Problem problem = plan::make_problem(graph, machine, training());
        const SearchResult result = search(problem, budget(200));
        for (const SearcherRow& row : searcher_table()) {
            if (!row.in_auto) continue;
            const SearchResult other = search(problem, budget(200, std::string(row.name)));
            EXPECT_LE(result.evaluation.value, other.evaluation.value) << row.name;
        }
    }
}

TEST(Mcmc, SpendsExactlyItsEvaluations) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    for (const std::int64_t evaluations : {50, 333}) {
        const SearchResult result = search(problem, budget(evaluations));
        EXPECT_EQ(result.evaluations, evaluations);
        EXPECT_EQ(result.status, Status::budget_exhausted);
    }
}

TEST(Mcmc, GivesTheSamePlanWithAnyNumberOfThreads) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4, {0, 0, 1, 1});
    const Problem problem = plan::make_problem(graph, machine, training());
    const auto text = [&](int threads, std::uint64_t seed) {
        EngineOptions options = budget(600);
        options.threads = threads;
        options.seed = seed;
        return plan::to_json(make_plan(problem, search(problem, options)));
    };
    const std::string one = text(1, 3);
    EXPECT_EQ(one, text(2, 3));
    EXPECT_EQ(one, text(5, 3));
    EXPECT_NE(one, text(1, 4));
}

TEST(Mcmc, PlacesWholeOpsWhereOpsStayWhole) {
    Random random(3);
    const graph::OpGraph graph = support::random_network(random, 40);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options;
    options.constraints.whole_ops = true;
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, budget(500));
    for (const plan::OpDecision& op : result.strategy.ops) {
        EXPECT_EQ(op.config.devices.size(), 1);
    }
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

TEST(Mcmc, SplitsNoClassThatDimsLeaveOut) {
    const auto model = importers::import_onnx(tests::repository() / "examples/models/alexnet.onnx",
                                              {.batch = 256});
    const graph::OpGraph& graph = model.graph;
    const cost::Machine machine = cost::load_machine("p100-cluster:1x4");
    ProblemOptions options = training();
    options.constraints.unsplit = {SoapClass::parameter, SoapClass::reduction,
                                   SoapClass::attribute};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, budget(200));
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
    int splits = 0;
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        for (const plan::Axis& axis : result.strategy.ops[i].config.axes) {
            if (axis.is_replica()) continue;
            const auto factor = static_cast<std::size_t>(axis.factor);
            EXPECT_GT(problem.facts().batch_digits(OpId(i))[factor].extent, 0)
                << graph.ops()[i].name;
            ++splits;
        }
    }
    EXPECT_GT(splits, 0);
}

TEST(Mcmc, SaysWhatIsShortWhenNothingFits) {
    // The weights alone need 16 layers * 1 KiB * 2 (gradients); no device and not all together.
    const graph::OpGraph graph = support::chain_network(32);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options = training();
    options.constraints.memory_limit = Bytes{9'300};
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, budget(300));
    EXPECT_EQ(result.status, Status::none_found);
    EXPECT_NE(result.shortage, "");
}

// Data parallelism needs all parameters on every device. A start that does not fit is left, for
// less overflow first, although every step of the way may take longer.
TEST(Mcmc, LeavesAStartThatDoesNotFit) {
    const graph::OpGraph graph = support::chain_network(16);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options = training();
    options.constraints.memory_limit = Bytes{16'000};
    const Problem problem = plan::make_problem(graph, machine, options);
    EngineOptions engine = budget(1'000);
    engine.start = data_parallel_strategy(problem, DeviceSet::progression(0, 4, 1));
    const auto make = [](Engine& /*engine*/) -> std::unique_ptr<Searcher> {
        return std::make_unique<Mcmc>();
    };
    const SearcherRow row{.name = "mcmc", .summary = "", .make = make};
    const SearchResult result = search(problem, engine, std::vector{row});
    ASSERT_NE(result.status, Status::infeasible) << result.shortage;
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

TEST(Mcmc, StopsWhenCancelledAndKeepsItsPlan) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, training());
    std::atomic<bool> cancelled{false};
    EngineOptions options = budget(1'000'000);
    options.cancelled = &cancelled;
    options.progress = [&](const Progress& progress) {
        if (progress.evaluations >= 100) cancelled = true;
    };
    const SearchResult result = search(problem, options);
    EXPECT_EQ(result.status, Status::budget_exhausted);
    EXPECT_LE(result.evaluations, 100 + 4 * 100);  // one walk of all chains further at most
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

TEST(Mcmc, EndsByItselfWithoutABudget) {
    const graph::OpGraph graph = plan::two_layers();
    const cost::Machine machine = plan::switched_machine(2);
    const Problem problem = plan::make_problem(graph, machine);
    EngineOptions options;
    options.searchers = {"mcmc"};
    const SearchResult result = search(problem, options);
    EXPECT_TRUE(result.status == Status::found || result.status == Status::optimal);
    EXPECT_LE(result.evaluations, McmcOptions{}.proposals + 1'000);
}

TEST(Mcmc, ChoosesMicroBatchesOnlyWhereItMay) {
    const graph::OpGraph graph = support::chain_network(12);
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options = training();
    options.constraints.whole_ops = true;
    const Problem fixed = plan::make_problem(graph, machine, options);
    EXPECT_EQ(search(fixed, budget(400)).strategy.policy, fixed.policy());
    options.constraints.most_micro_batches = 4;
    options.constraints.free_schedule = true;
    const Problem free = plan::make_problem(graph, machine, options);
    const SearchResult result = search(free, budget(400));
    EXPECT_LE(result.strategy.policy.micro_batches, 4);
    EXPECT_THAT(plan::verify(free, make_plan(free, result)), IsEmpty());
}

TEST(Mcmc, KeepsTheMicroBatchesAndTheScheduleThatAreGiven) {
    const graph::OpGraph graph = support::chain_network(16);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options = training();
    options.policy.micro_batches = 4;
    options.policy.schedule = *plan::schedule_from_text("1f1b");
    const Problem problem = plan::make_problem(graph, machine, options);
    const SearchResult result = search(problem, budget(400));
    ASSERT_NE(result.status, Status::infeasible) << result.shortage;
    EXPECT_EQ(result.strategy.policy, problem.policy());
    EXPECT_TRUE(result.evaluation.keeps_schedule);
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
}

TEST(Mcmc, RefusesAMoveThatThereIsNot) {
    McmcOptions options;
    options.moves = {"jump"};
    EXPECT_THROW(Mcmc{options}, UsageError);
}

TEST(Mcmc, MovesInTwentyThousandOps) {
    Random random(2);
    const graph::OpGraph graph = support::random_workload(random, 20'000);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine);
    const SearchResult result = search(problem, budget(30));
    EXPECT_EQ(result.evaluations, 30);
    EXPECT_TRUE(result.acceptance_rate);  // it came to moves
}

TEST(Limit, PutsSchedulesAndMemoryBeforeTime) {
    const plan::Score limit{.keeps_schedule = true, .overflow = Bytes{5}, .value = Time{10}};
    const auto evaluation = [](bool keeps, std::int64_t overflow, std::int64_t value) {
        return plan::Score{keeps, Bytes{overflow}, Time{value}};
    };
    EXPECT_TRUE(limit.admits(evaluation(true, 5, 10)));
    EXPECT_FALSE(limit.admits(evaluation(true, 5, 11)));
    EXPECT_TRUE(limit.admits(evaluation(true, 4, 1'000)));
    EXPECT_FALSE(limit.admits(evaluation(true, 6, 1)));
    EXPECT_FALSE(limit.admits(evaluation(false, 0, 1)));
}

// One weird trick, found and not written down: 16 samples per GPU are little against the gradients
// of the fully connected layers.
TEST(Mcmc, SplitsConvolutionsOfAlexNetByBatchAndItsProductsByParameters) {
    const auto model = importers::import_onnx(tests::repository() / "examples/models/alexnet.onnx",
                                              {.batch = 256});
    const cost::Machine machine = cost::load_machine("p100-cluster:4x4");
    const Problem problem = plan::make_problem(model.graph, machine, training());
    const SearchResult result = search(problem, budget(1'000));
    for (const SearcherRow& row : searcher_table()) {
        if (!row.in_auto) continue;
        const SearchResult quick = search(problem, budget(1'000, std::string(row.name)));
        EXPECT_LT(result.evaluation.value, quick.evaluation.value) << row.name;
    }
    EXPECT_EQ(result.searcher, "mcmc");
    EXPECT_GT(result.acceptance_rate, 0.0);
    EXPECT_LT(result.acceptance_rate, 0.5);
    for (std::size_t i = 0; i < model.graph.op_count(); ++i) {
        const graph::Op& op = model.graph.ops()[i];
        const auto axes =
            names_of(problem.facts().rule(OpId(i)), result.strategy.ops[i].config.axes);
        if (op.type == "Conv") {
            EXPECT_THAT(axes, testing::ElementsAre(plan::PlannedAxis{"n", 16})) << op.name;
        } else if (op.type == "Gemm") {
            EXPECT_THAT(axes, testing::Each(testing::Field(&plan::PlannedAxis::factor,
                                                           testing::AnyOf("n", "k"))))
                << op.name;
        }
    }
}

}  // namespace
}  // namespace partita::search
