// SPDX-License-Identifier: Apache-2.0
//
// Incremental evaluations equal whole ones, whatever the limit, the memory and the policy.
#include "plan/incremental_evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "plan/config.h"
#include "tests/plan/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using search::Random;

/// As much memory as a random strategy needs, so that some fit and some do not, or half of that, so that
/// few do.
ProblemOptions options(Random& random, const graph::OpGraph& graph, const cost::Machine& machine,
                       int micro_batches, Objective objective) {
    ProblemOptions options{.mode = Mode::training, .objective = objective};
    const Problem problem = make_problem(graph, machine, options);
    const Evaluation drawn = make_evaluator(problem, Scheduler::rank)
                                 ->evaluate(random_strategy(random, problem, micro_batches));
    if (draw(random, 2) == 0) return options;
    Bytes most;
    for (const DeviceUse& use : drawn.devices) most = std::max(most, use.memory);
    options.constraints.memory_limit = draw(random, 2) == 0 ? most : Bytes(most.raw() / 2);
    return options;
}

TEST(IncrementalEvaluator, EqualsTheEvaluator) {
    EvaluatorEffort effort;
    std::int64_t accepted = 0;
    std::int64_t rejected = 0;
    std::int64_t less_overflow = 0;  // and accepted, though slower than the limit
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
            if (draw(random, 4) == 0) {
                limit.overflow = std::max(Bytes{0}, expected.overflow + Bytes(draw(random, 3) - 1));
            }
            const auto actual = evaluator.evaluate(change, limit);
            if (limit.better_than(expected)) {
                ASSERT_EQ(actual, std::nullopt);
                ++rejected;
                continue;
            }
            ASSERT_EQ(actual, expected);
            if (limit.value < expected.value) ++less_overflow;
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
    EXPECT_GT(effort.memory, 500);
    EXPECT_GT(less_overflow, 100);
    EXPECT_LT(effort.whole, effort.evaluations / 2);
}

/// Four nodes of a workload in memory for three, on each device in turn.
TEST(IncrementalEvaluator, CountsMemoryThatIsGiven) {
    WorkloadBuilder build;
    build.node("a", 5, {}, 1, Bytes{10}).node("b", 7, {"a"}, 1, Bytes{20});
    build.node("c", 3, {"a"}, 1, Bytes{30}).node("d", 4, {"b", "c"}, 1, Bytes{40});
    const graph::OpGraph graph = build.build();
    const cost::Machine machine = switched_machine(2);
    ProblemOptions options{.objective = Objective::latency};
    options.constraints.memory_limit = Bytes{60};
    const Problem problem = make_problem(graph, machine, options);
    const auto whole = make_evaluator(problem, Scheduler::rank);
    IncrementalEvaluator evaluator(problem);
    std::vector<int> devices(graph.op_count(), 0);
    Score score = evaluator.start(on_devices(devices));
    EXPECT_EQ(score.overflow, Bytes{40});
    const Score any{.keeps_schedule = true, .overflow = Bytes{100}, .value = Time::max()};
    bool fitted = false;
    for (int i = 1; i < 16; ++i) {  // one node moves at a time, in the order of a Gray code
        const auto bit = static_cast<std::size_t>(std::countr_zero(static_cast<unsigned>(i)));
        devices[bit] = 1 - devices[bit];
        const Strategy next = on_devices(devices);
        const std::vector configs{std::pair(graph::OpId(bit), next.configs[bit])};
        ASSERT_EQ(evaluator.evaluate({.configs = configs}, any), score_of(whole->evaluate(next)));
        evaluator.accept();
        fitted = fitted || evaluator.score().overflow == Bytes{0};
    }
    EXPECT_TRUE(fitted);
    EXPECT_EQ(evaluator.effort().whole, 0);
}

}  // namespace
}  // namespace partita::plan
