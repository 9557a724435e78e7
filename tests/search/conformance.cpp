// SPDX-License-Identifier: Apache-2.0
#include "tests/search/conformance.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <gmock/gmock.h>

#include "plan/files/plan_file.h"
#include "plan/files/verify.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/draws.h"
#include "tests/support/fake_clock.h"
#include "tests/support/random_graph.h"

namespace partita::search {

using graph::OpId;
using plan::Mode;
using plan::Objective;
using plan::Problem;
using plan::ProblemOptions;
using testing::IsEmpty;

std::string case_name(const testing::TestParamInfo<SearcherCase>& info) {
    std::string name = info.param.name;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
    return name;
}

EngineOptions EverySearcher::options(std::int64_t evaluations) {
    EngineOptions options;
    options.searchers = {GetParam().name};
    options.evaluations = evaluations;
    return options;
}

SearchResult EverySearcher::run(const Problem& problem, EngineOptions options) {
    const auto learned = GetParam().learned ? GetParam().learned() : nullptr;
    options.learned = learned.get();
    return search(problem, std::move(options));
}

void EverySearcher::expect_sound(const Problem& problem, const SearchResult& result) {
    ASSERT_NE(result.status, Status::in_progress);
    if (result.status == Status::infeasible) {
        EXPECT_NE(result.shortage, "");
        return;
    }
    EXPECT_EQ(result.strategy.ops.size(), problem.graph().op_count());
    EXPECT_GE(result.evaluation.value, result.lower_bound);
    EXPECT_THAT(plan::verify(problem, make_plan(problem, result)), IsEmpty());
    if (result.status == Status::optimal && result.lower_bound > Time{0}) {
        EXPECT_EQ(result.gap, 0.0);
    }
}

void EverySearcher::expect_complete(const Problem& problem, const SearchResult& result) {
    ASSERT_NE(result.status, Status::infeasible) << result.shortage;
    expect_sound(problem, result);
}

namespace {

ProblemOptions training() {
    ProblemOptions options;
    options.mode = Mode::training;
    options.objective = Objective::step_time;
    return options;
}

/// The loss has an op of its own, whose parts combine otherwise than by sums.
ProblemOptions classification() {
    ProblemOptions options = training();
    options.policy.loss = plan::LossKind::cross_entropy;
    return options;
}

ProblemOptions throughput() {
    ProblemOptions options;
    options.objective = Objective::throughput;
    return options;
}

TEST_P(EverySearcher, ReturnsVerifiedPlansOfNetworks) {
    for (const std::uint64_t seed : support::seeds(6)) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 25);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        for (const ProblemOptions& kind :
             {ProblemOptions{}, training(), classification(), throughput()}) {
            const Problem problem = plan::make_problem(graph, machine, kind);
            expect_complete(problem, run(problem, options()));
        }
    }
}

TEST_P(EverySearcher, ReturnsVerifiedPlansOfWorkloads) {
    for (const std::uint64_t seed : support::seeds(1)) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 40);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        for (const ProblemOptions& kind : {ProblemOptions{}, throughput()}) {
            const Problem problem = plan::make_problem(graph, machine, kind);
            expect_complete(problem, run(problem, options()));
        }
    }
}

TEST_P(EverySearcher, RespectsMemoryOrSaysInfeasible) {
    for (const std::uint64_t seed : support::seeds(12)) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 40);  // about 2,000 bytes
        const auto memory = static_cast<std::int64_t>(400 + random.below(600));
        const cost::Machine machine = support::random_machine(random, 4, Bytes{memory});
        const Problem problem = plan::make_problem(graph, machine);
        expect_sound(problem, run(problem, options()));
    }
}

TEST_P(EverySearcher, FitsTrainingIntoScarceMemory) {
    // Everything needs about 40 kB; a device holds a half. Only single-device must give up.
    const graph::OpGraph graph = support::chain_network(16);
    const cost::Machine machine = plan::switched_machine(4);
    ProblemOptions kind = training();
    kind.constraints.memory_limit = Bytes{16'000};
    const Problem problem = plan::make_problem(graph, machine, kind);
    const SearchResult result = run(problem, options());
    if (GetParam().name == "single-device") {
        EXPECT_EQ(result.status, Status::infeasible);
    } else {
        expect_complete(problem, result);
    }
}

TEST_P(EverySearcher, RecomputesWhatIsSaid) {
    for (const plan::Recompute said :
         {plan::Recompute::selective, plan::Recompute::full, plan::Recompute::automatic}) {
        for (const std::uint64_t seed : support::seeds(4)) {
            Random random(seed);
            const graph::OpGraph graph =
                plan::in_layer_blocks(random, support::random_network(random, 20));
            const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
            ProblemOptions kind = training();
            kind.policy.recompute = said;
            const Problem problem = plan::make_problem(graph, machine, kind);
            expect_complete(problem, run(problem, options()));  // verify() checks it
        }
    }
}

TEST_P(EverySearcher, HonoursFixedAndJoinedOps) {
    for (const std::uint64_t seed : support::seeds(6)) {
        Random random(seed);
        const graph::OpGraph graph = support::random_network(random, 20);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        ProblemOptions kind = seed % 2 == 0 ? training() : ProblemOptions{};
        const auto ops = static_cast<std::uint64_t>(graph.op_count());
        kind.constraints.allowed.resize(graph.op_count());
        for (int i = 0; i < 6; ++i) kind.constraints.allowed[random.below(ops)] = {1, 3};
        kind.constraints.allowed[random.below(ops)] = {3};
        kind.constraints.together = {{OpId(random.below(ops)), OpId(random.below(ops))},
                                     {OpId(random.below(ops)), OpId(random.below(ops))}};
        const Problem problem = plan::make_problem(graph, machine, kind);
        for (const bool group : {true, false}) {
            EngineOptions search_options = options();
            search_options.group = group;
            expect_complete(problem, run(problem, search_options));  // verify() checks both
        }
    }
}

TEST_P(EverySearcher, GivesTheSamePlanForASeedWithAnyNumberOfThreads) {
    for (const bool real_ops : {true, false}) {
        Random random(5);
        const graph::OpGraph graph =
            real_ops ? support::random_network(random, 30) : support::random_workload(random, 30);
        const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
        const Problem problem = plan::make_problem(graph, machine);
        const auto text = [&](int threads) {
            EngineOptions search_options = options();
            search_options.threads = threads;
            search_options.seed = 9;
            return plan::to_json(make_plan(problem, run(problem, search_options)));
        };
        const std::string one = text(1);
        EXPECT_EQ(one, text(2));
        EXPECT_EQ(one, text(3));
        EXPECT_EQ(one, text(1));
    }
}

TEST_P(EverySearcher, PlansAGraphWithoutOps) {
    const graph::OpGraph graph;
    const cost::Machine machine = plan::switched_machine(3);
    const Problem problem = plan::make_problem(graph, machine);
    const SearchResult result = run(problem, options());
    expect_complete(problem, result);
    EXPECT_EQ(result.status, Status::optimal);
    EXPECT_EQ(result.gap, 0.0);
}

TEST_P(EverySearcher, PlansAGraphOfOneOp) {
    const graph::OpGraph graph = plan::WorkloadBuilder().node("a", 3).build();
    const cost::Machine machine = plan::switched_machine(3);
    const Problem problem = plan::make_problem(graph, machine);
    const SearchResult result = run(problem, options());
    expect_complete(problem, result);
    EXPECT_EQ(result.evaluation.value, microseconds(3));
    EXPECT_EQ(result.status, Status::optimal);
}

TEST_P(EverySearcher, PlansOpsThatTakeNoTime) {
    plan::WorkloadBuilder build;
    build.node("0", 0, {}, /*copy=*/0);
    for (int i = 1; i < 20; ++i) {
        const std::string before = std::to_string((i - 1) / 2);
        build.node(std::to_string(i), 0, {before.c_str()}, /*copy=*/0);
    }
    const graph::OpGraph graph = build.build();
    const cost::Machine machine = plan::switched_machine(3);
    const Problem problem = plan::make_problem(graph, machine);
    const SearchResult result = run(problem, options());
    expect_complete(problem, result);
    EXPECT_EQ(result.evaluation.value, Time{0});
    EXPECT_EQ(result.status, Status::optimal);
}

TEST_P(EverySearcher, PlansForAMachineOfOneDevice) {
    Random random(8);
    const graph::OpGraph graph = support::random_network(random, 20);
    const cost::Machine machine = plan::switched_machine(1);
    const Problem problem = plan::make_problem(graph, machine, training());
    const SearchResult result = run(problem, options());
    expect_complete(problem, result);
    EXPECT_EQ(result.baselines.at(0).value, result.evaluation.value);
}

TEST_P(EverySearcher, PlansAHundredThousandOps) {
    // One for all searchers: making it takes longer than most of them.
    static Random random(2);
    static const graph::OpGraph kGraph = support::random_workload(random, 100'000);
    static const cost::Machine kMachine = support::random_machine(random, 8, Bytes{10'000'000});
    static const Problem kProblem = plan::make_problem(kGraph, kMachine);
    const SearchResult result = run(kProblem, options(/*evaluations=*/2));
    ASSERT_NE(result.status, Status::infeasible) << result.shortage;
    EXPECT_EQ(result.strategy.ops.size(), kGraph.op_count());
    EXPECT_GE(result.evaluation.value, result.lower_bound);
}

TEST_P(EverySearcher, StaysWithinItsEvaluations) {
    Random random(4);
    const graph::OpGraph graph = support::random_network(random, 30);
    const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
    const Problem problem = plan::make_problem(graph, machine);
    for (const std::int64_t evaluations : {0, 1, 3, 20}) {
        const SearchResult result = run(problem, options(evaluations));
        expect_complete(problem, result);
        EXPECT_LE(result.evaluations, std::max<std::int64_t>(1, evaluations));
    }
}

TEST_P(EverySearcher, StopsWhenItsTimeIsUp) {
    Random random(4);
    const graph::OpGraph graph = support::random_network(random, 30);
    const cost::Machine machine = support::random_machine(random, 4, Bytes{10'000'000});
    const Problem problem = plan::make_problem(graph, machine);
    const support::FakeClock clock(std::chrono::milliseconds(1));
    for (const int limit : {0, 10}) {
        EngineOptions search_options = options(/*evaluations=*/1'000'000);
        search_options.time_limit = std::chrono::milliseconds(limit);
        search_options.clock = &clock;
        const SearchResult result = run(problem, search_options);
        expect_complete(problem, result);
        // The clock is looked at before every evaluation but the first.
        EXPECT_LE(result.evaluations, std::max(1, limit));
    }
}

}  // namespace
}  // namespace partita::search
