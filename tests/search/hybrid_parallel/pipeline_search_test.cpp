// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/pipeline_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "search/mcmc/mcmc.h"
#include "search/portfolio/composed_searchers.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"
#include "tests/search/enumeration.h"

namespace partita::search {
namespace {

using graph::TensorRole;
using plan::Problem;
using plan::ProblemOptions;
using plan::Schedule;
using plan::ScheduleKind;
using testing::IsEmpty;

/// Pairs of products from a narrow tensor to a wide one and back: cheap to cut between pairs.
///
///     x [256 64] ─▶ MatMul [64 4096] ─▶ MatMul [4096 64] ─▶ MatMul ─▶ ... ─▶ y
graph::OpGraph narrow_and_wide(int pairs, std::int64_t batch = 256) {
    constexpr std::int64_t kNarrow = 64;
    constexpr std::int64_t kWide = 4096;
    plan::NetworkBuilder build;
    graph::TensorId last = build.source("x", TensorRole::input, {batch, kNarrow});
    for (int i = 0; i < pairs; ++i) {
        last = build.add("MatMul", {last, build.weight({kNarrow, kWide})}, {{batch, kWide}})[0];
        last = build.add("MatMul", {last, build.weight({kWide, kNarrow})}, {{batch, kNarrow}})[0];
    }
    build.add_outputs();
    return std::move(build.graph);
}

ProblemOptions whole_ops() {
    ProblemOptions options{.mode = plan::Mode::training, .objective = plan::Objective::step_time};
    options.constraints.whole_ops = true;
    return options;
}

ProblemOptions open(ProblemOptions options) {
    options.constraints.most_micro_batches = 8;
    options.constraints.free_schedule = true;
    return options;
}

SearchResult run(const Problem& problem, const std::string& searcher, std::int64_t evaluations,
                 int threads = 1) {
    EngineOptions options;
    options.searchers = {searcher};
    options.evaluations = evaluations;
    options.threads = threads;
    return search(problem, options);
}

TEST(PipelineSearch, GivesEachStageSomethingToDo) {
    const graph::OpGraph graph = narrow_and_wide(4);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem given = plan::make_problem(graph, machine, whole_ops());
    const Problem free = plan::make_problem(graph, machine, open(whole_ops()));
    const SearchResult one = run(given, "expert", 100);
    const SearchResult many = run(free, "expert", 100);
    EXPECT_EQ(one.strategy.policy, given.policy());
    EXPECT_EQ(many.strategy.policy.micro_batches, 8);
    // Four stages, eight micro-batches: 11 of 32 turns instead of all, and some for messages.
    EXPECT_LT(many.evaluation.value / one.evaluation.value, 0.6);
    EXPECT_THAT(plan::verify(free, make_plan(free, many)), IsEmpty());
}

TEST(PipelineSearch, ProposesGridsWhereAMachineIsSlowToAddGradients) {
    const graph::OpGraph graph = narrow_and_wide(4);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions options = whole_ops();
    options.constraints.whole_ops = false;
    options.constraints.unsplit = {graph::SoapClass::parameter, graph::SoapClass::attribute,
                                   graph::SoapClass::reduction};
    const Problem given = plan::make_problem(graph, machine, options);
    const Problem free = plan::make_problem(graph, machine, open(options));
    const SearchResult one = run(given, "expert", 100);
    const SearchResult many = run(free, "expert", 100);
    EXPECT_GT(many.strategy.policy.micro_batches, 1);
    EXPECT_LT(many.evaluation.value, one.evaluation.value);
    EXPECT_GT(many.evaluations, one.evaluations);
    EXPECT_LE(many.evaluations, one.evaluations + PipelineSearch::kMostPipelines + 1);
}

TEST(PipelineSearch, KeepsWhatIsGiven) {
    const graph::OpGraph graph = narrow_and_wide(3);
    const cost::Machine machine = plan::switched_machine(3);
    const Schedule ordered{.kind = ScheduleKind::gpipe};
    for (const char* searcher : {"expert", "mcmc", "auto"}) {
        ProblemOptions options = whole_ops();
        options.policy.micro_batches = 4;
        options.constraints.free_schedule = true;
        const Problem of_four = plan::make_problem(graph, machine, options);
        const SearchResult four = run(of_four, searcher, 200);
        EXPECT_EQ(four.strategy.policy.micro_batches, 4) << searcher;
        EXPECT_THAT(plan::verify(of_four, make_plan(of_four, four)), IsEmpty());

        options = whole_ops();
        options.policy.schedule = ordered;
        options.constraints.most_micro_batches = 8;
        const Problem in_order = plan::make_problem(graph, machine, options);
        const SearchResult result = run(in_order, searcher, 200);
        EXPECT_EQ(result.strategy.policy.schedule, ordered) << searcher;
        EXPECT_GT(result.strategy.policy.micro_batches, 1) << searcher;
        EXPECT_THAT(plan::verify(in_order, make_plan(in_order, result)), IsEmpty());
    }
}

TEST(PipelineSearch, GivesTheSameBytesWithAnyNumberOfThreads) {
    const graph::OpGraph graph = narrow_and_wide(3);
    const cost::Machine machine = plan::switched_machine(4);
    const Problem problem = plan::make_problem(graph, machine, open(whole_ops()));
    const auto bytes = [&](int threads) {
        return plan::to_json(make_plan(problem, run(problem, "mcmc", 400, threads)));
    };
    EXPECT_EQ(bytes(1), bytes(3));
}

/// Only moves between the strategies that are enumerated below.
std::unique_ptr<Searcher> make_tiny(Engine& /*engine*/) {
    McmcOptions options;
    options.hot = 0.05;
    options.moves = {"change-devices", "swap-devices", "shift-border", "change-micro-batches"};
    return make_mcmc(options);
}

/// The best value of every placement with these micro-batches in this order.
plan::Evaluation best_of_all(const graph::OpGraph& graph, const cost::Machine& machine,
                             int micro_batches, ScheduleKind schedule) {
    ProblemOptions options = whole_ops();
    options.policy.micro_batches = micro_batches;
    options.policy.schedule = {.kind = schedule};
    const Problem problem = plan::make_problem(graph, machine, options);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    SearchSpace space(groups);
    return enumerate(space).best;
}

TEST(PipelineSearch, McmcFindsTheBestOfAllPipelines) {
    const graph::OpGraph graph = narrow_and_wide(2);
    const cost::Machine machine = plan::switched_machine(2);
    plan::Evaluation best = best_of_all(graph, machine, 1, ScheduleKind::none);
    const Time of_one = best.value;
    for (const int micro_batches : {2, 4, 8}) {
        for (const ScheduleKind schedule : {ScheduleKind::none, ScheduleKind::gpipe,
                                            ScheduleKind::one_f_one_b, ScheduleKind::eager_1f1b}) {
            const plan::Evaluation one = best_of_all(graph, machine, micro_batches, schedule);
            if (one.better_than(best)) best = one;
        }
    }
    ASSERT_LT(best.value / of_one, 0.85);  // pipelines are worth finding here
    const Problem problem = plan::make_problem(graph, machine, open(whole_ops()));
    for (const std::uint64_t seed : {1, 2, 3}) {
        EngineOptions engine;
        engine.evaluations = 2'000;
        engine.seed = seed;
        const SearcherRow row{.name = "mcmc", .summary = "", .make = make_tiny};
        const SearchResult result = search(problem, engine, std::vector{row});
        EXPECT_EQ(result.evaluation.value, best.value) << "seed " << seed;
        EXPECT_LE(result.lower_bound, best.value);
    }
}

TEST(DataParallel, CutsTheBatchWhereItDoesNotFit) {
    const graph::OpGraph graph = narrow_and_wide(2, 2048);
    const cost::Machine machine = plan::switched_machine(2);
    ProblemOptions options{.mode = plan::Mode::training, .objective = plan::Objective::step_time};
    // Kept for backward: two wide tensors of 1,024 samples, 32 MiB. Parameters with gradients: 8
    // MiB.
    options.constraints.memory_limit = Bytes{24'000'000};
    const Problem given = plan::make_problem(graph, machine, options);
    const Problem free = plan::make_problem(graph, machine, open(options));
    EXPECT_EQ(run(given, "data-parallel", 20).status, Status::infeasible);
    const SearchResult fits = run(free, "data-parallel", 20);
    ASSERT_NE(fits.status, Status::infeasible) << fits.shortage;
    EXPECT_GT(fits.strategy.policy.micro_batches, 1);
    EXPECT_THAT(plan::verify(free, make_plan(free, fits)), IsEmpty());
}

}  // namespace
}  // namespace partita::search
