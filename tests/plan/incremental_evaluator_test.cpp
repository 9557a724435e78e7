// SPDX-License-Identifier: Apache-2.0
//
// Incremental evaluations equal whole ones, whatever the limit, the memory and the policy.
#include "plan/incremental_evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/config.h"
#include "tests/plan/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using search::Random;

/// As much memory as a random strategy needs, so that some fit and some do not.
ProblemOptions options(Random& random, const graph::OpGraph& graph, const cost::Machine& machine,
                       int micro_batches, Objective objective) {
    ProblemOptions options{.mode = Mode::training, .objective = objective};
    const Problem problem = make_problem(graph, machine, options);
    const Evaluation drawn = make_evaluator(problem, Scheduler::rank)
                                 ->evaluate(random_strategy(random, problem, micro_batches));
    if (draw(random, 2) == 0) return options;
    Bytes most;
    for (const DeviceUse& use : drawn.devices) most = std::max(most, use.memory);
    options.constraints.memory_limit = most;
    return options;
}

TEST(IncrementalEvaluator, EqualsTheEvaluator) {
    EvaluatorEffort effort;
    std::int64_t accepted = 0;
    std::int64_t rejected = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = seed % 3 == 0 ? 1 + draw(random, 3) : 1;
        const graph::OpGraph graph = random_network(
            random, 1 + draw(random, 7), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const cost::Machine machine = switched_machine(1 + draw(random, 6));
        const Objective objective = seed % 20 == 0 ? Objective::throughput : Objective::step_time;
        const Problem problem =
            make_problem(graph, machine, options(random, graph, machine, micro_batches, objective));
        const auto whole = make_evaluator(problem, Scheduler::rank);
        IncrementalEvaluator evaluator(problem);
        Strategy strategy = random_strategy(random, problem, micro_batches);
        if (seed % 4 != 0) {
            for (UpdateConfig& update : strategy.updates) update.refetch = false;
        }
        ASSERT_EQ(evaluator.start(strategy), score_of(whole->evaluate(strategy)));
        for (int i = 0; i < 40; ++i) {
            RandomChange drawn = random_change(random, problem, micro_batches);
            if (seed % 4 != 0) {
                for (auto& [op, update] : drawn.updates) update.refetch = false;
            }
            const StrategyChange change{drawn.configs, drawn.updates};
            Strategy next = strategy;
            apply(next, change);
            if (find_fault(problem, next)) continue;
            const Score expected = score_of(whole->evaluate(next));
            Score limit = expected;
            if (draw(random, 3) != 0) limit = evaluator.score();
            limit.value += Time(draw(random, 2'000'000) - 1'000'000);
            const auto actual = evaluator.evaluate(change, limit);
            if (limit.better_than(expected)) {
                ASSERT_EQ(actual, std::nullopt);
                ++rejected;
                continue;
            }
            ASSERT_EQ(actual, expected);
            if (draw(random, 3) != 0) {
                evaluator.accept();
                strategy = std::move(next);
                ++accepted;
            } else {
                evaluator.reject();
            }
            ASSERT_EQ(evaluator.strategy().configs, strategy.configs);
        }
        effort.evaluations += evaluator.effort().evaluations;
        effort.rejected_by_parts += evaluator.effort().rejected_by_parts;
        effort.rejected_by_load += evaluator.effort().rejected_by_load;
        effort.whole += evaluator.effort().whole;
        effort.memory += evaluator.effort().memory;
    }
    // All ways were taken.
    EXPECT_GT(accepted, 500);
    EXPECT_GT(rejected, 500);
    EXPECT_GT(effort.rejected_by_parts, 100);
    EXPECT_GT(effort.rejected_by_load, 50);
    EXPECT_GT(effort.whole, 100);
    EXPECT_GT(effort.memory, 50);
    EXPECT_LT(effort.whole + effort.memory, effort.evaluations / 2);
}

}  // namespace
}  // namespace partita::plan
