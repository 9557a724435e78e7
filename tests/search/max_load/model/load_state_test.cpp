// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/load_state.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/evaluation/max_load.h"
#include "search/coarsening/group_graph.h"
#include "search/coarsening/op_groups.h"
#include "search/max_load/local/load_annealer.h"
#include "search/max_load/model/load_graph.h"
#include "tests/plan/small_problems.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"
#include "tests/support/random_graph.h"

namespace partita::search {
namespace {

using plan::Problem;
using plan::ProblemOptions;

/// Loads and overflow are those of the evaluator.
void expect_exact(const Problem& problem, const GroupGraph& groups, const LoadProblem& load,
                  const LoadState& state) {
    Placement placement;
    for (const std::int32_t vertex : load.of) {
        placement.push_back(state.device_of(static_cast<std::size_t>(vertex)));
    }
    const plan::Evaluation value = given_max_load(problem, groups.strategy(placement));
    for (std::size_t d = 0; d < state.device_count(); ++d) {
        ASSERT_EQ(state.load(d), value.devices[d].busy.raw()) << "device " << d;
    }
    ASSERT_EQ(state.score().load, value.value.raw());
    ASSERT_EQ(state.score().overflow, value.overflow.raw());
}

/// Random moves, every one checked; returns how many made a device overfull.
int walk(const Problem& problem, Random& random, int moves) {
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    const LoadProblem load = make_load_problem(groups);
    LoadState state(load.graph, load.devices);
    LoadAnnealer annealer(load, random);
    state.assign(annealer.random_start());
    expect_exact(problem, groups, load, state);
    int overfull = 0;
    for (int i = 0; i < moves && !testing::Test::HasFatalFailure(); ++i) {
        const std::size_t v = random.below(load.graph.size);
        const std::size_t to = random.below(load.devices.size());
        if (!state.allowed(v, to) || std::cmp_equal(state.device_of(v), to)) continue;
        state.move(v, to);
        expect_exact(problem, groups, load, state);
        if (state.score().overflow > 0) ++overfull;
    }
    return overfull;
}

TEST(LoadState, KeepsTheLoadsOfTheEvaluatorAlongRandomMoves) {
    int overfull = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 60);
        const cost::Machine machine = support::random_machine(random, 5, Bytes{800});
        ProblemOptions options{.objective = plan::Objective::throughput};
        options.constraints.together = {{graph::OpId(std::size_t{3}), graph::OpId(std::size_t{40})},
                                        {graph::OpId(std::size_t{7}), graph::OpId(std::size_t{8}),
                                         graph::OpId(std::size_t{50})}};
        options.constraints.allowed.resize(graph.op_count());
        options.constraints.allowed[11] = {1, 3};
        const Problem problem = plan::make_problem(graph, machine, options);
        overfull += walk(problem, random, 400);
    }
    EXPECT_GT(overfull, 100);
}

TEST(LoadState, KeepsThemForClassesOfBackwardNodesAndNodesForCpusAlone) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        Random random(seed);
        const SmallWorkload small = small_workload(random);
        ProblemOptions options{.objective = plan::Objective::throughput};
        options.constraints.together = small.together;
        options.constraints.memory_limit = small.memory;
        const Problem problem = plan::make_problem(small.graph, small.machine, options);
        if (!make_groups(problem, Grouping::all).conflict.empty()) continue;
        walk(problem, random, 100);
    }
}

TEST(LoadAnnealer, KeepsItsStateExactAndItsBestNoWorseThanItsStart) {
    int better = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = support::random_workload(random, 60);
        const cost::Machine machine = support::random_machine(random, 5, Bytes{800});
        const Problem problem = plan::make_problem(
            graph, machine, ProblemOptions{.objective = plan::Objective::throughput});
        const GroupGraph groups(problem, make_groups(problem, Grouping::all));
        const LoadProblem load = make_load_problem(groups);
        LoadAnnealer annealer(load, random);
        const std::vector<std::int32_t> start = annealer.random_start();
        annealer.begin(start, {.work = 20'000});
        const LoadScore first = annealer.best_score();
        while (!annealer.over()) {
            const auto steps = annealer.advance(500, [] { return false; });
            EXPECT_LE(steps.proposals, 500);
            EXPECT_LE(steps.acceptances, steps.proposals);
            expect_exact(problem, groups, load, annealer.state());
        }
        LoadState best(load.graph, load.devices);
        best.assign(annealer.best());
        EXPECT_EQ(best.score(), annealer.best_score());
        EXPECT_LE(annealer.best_score(), first);
        if (annealer.best_score() < first) ++better;
    }
    EXPECT_GT(better, 5);
}

}  // namespace
}  // namespace partita::search
