// SPDX-License-Identifier: Apache-2.0
//
// Incremental evaluations equal whole ones, whatever the limit, the memory, the schedule and the policy.
#include "plan/incremental_evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "plan/config.h"
#include "tests/plan/random_layouts.h"
#include "tests/plan/random_pipelines.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using search::Random;

/// As much memory as a strategy needs, so that some fit and some do not.
void limit_memory(ProblemOptions& options, const Problem& unlimited, const Strategy& strategy) {
    const Evaluation drawn = make_evaluator(unlimited, Scheduler::rank)->evaluate(strategy);
    Bytes most;
    for (const DeviceUse& use : drawn.devices) most = std::max(most, use.memory);
    options.constraints.memory_limit = most;
}

struct Counts {
    int accepted = 0;
    int rejected = 0;
    int broken = 0;  ///< schedules
    EvaluatorEffort effort;
};

/// A strategy that changes, evaluated both ways.
class Comparison {
public:
    Comparison(Random& random, const Problem& problem, const Strategy& start)
        : random_(random),
          problem_(problem),
          whole_(make_evaluator(problem, Scheduler::rank)),
          evaluator_(problem),
          strategy_(start) {
        EXPECT_EQ(evaluator_.start(strategy_), score_of(whole_->evaluate(strategy_)));
    }

    void step(const RandomChange& drawn, Counts& counts) {
        const StrategyChange change{drawn.configs, drawn.updates};
        Strategy next = strategy_;
        apply(next, change);
        Strategy unscheduled = next;
        unscheduled.policy.schedule = {};
        if (find_fault(problem_, unscheduled)) return;
        const Score expected = score_of(whole_->evaluate(next));
        counts.broken += expected.keeps_schedule ? 0 : 1;
        Score limit = expected;
        if (draw(random_, 3) != 0) limit = evaluator_.score();
        limit.value += Time(draw(random_, 2'000'000) - 1'000'000);
        const auto actual = evaluator_.evaluate(change, limit);
        if (limit.better_than(expected)) {
            ASSERT_EQ(actual, std::nullopt) << text_of(problem_, next);
            ++counts.rejected;
            return;
        }
        ASSERT_EQ(actual, expected) << text_of(problem_, next);
        if (draw(random_, 3) != 0) {
            evaluator_.accept();
            strategy_ = std::move(next);
            ++counts.accepted;
        } else {
            evaluator_.reject();
        }
        ASSERT_EQ(evaluator_.strategy().configs, strategy_.configs);
    }

    void count(Counts& counts) const {
        counts.effort.evaluations += evaluator_.effort().evaluations;
        counts.effort.rejected_by_parts += evaluator_.effort().rejected_by_parts;
        counts.effort.rejected_by_load += evaluator_.effort().rejected_by_load;
        counts.effort.whole += evaluator_.effort().whole;
        counts.effort.memory += evaluator_.effort().memory;
    }

private:
    Random& random_;
    const Problem& problem_;
    std::unique_ptr<Evaluator> whole_;
    IncrementalEvaluator evaluator_;
    Strategy strategy_;
};

TEST(IncrementalEvaluator, EqualsTheEvaluator) {
    Counts counts;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = seed % 3 == 0 ? 1 + draw(random, 3) : 1;
        const graph::OpGraph graph = random_network(
            random, 1 + draw(random, 7), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const cost::Machine machine = switched_machine(1 + draw(random, 6));
        const Objective objective = seed % 20 == 0 ? Objective::throughput : Objective::step_time;
        ProblemOptions options{.mode = Mode::training, .objective = objective};
        if (draw(random, 2) == 0) {
            const Problem unlimited = make_problem(graph, machine, options);
            limit_memory(options, unlimited, random_strategy(random, unlimited, micro_batches));
        }
        const Problem problem = make_problem(graph, machine, options);
        const bool refetches = seed % 4 == 0;
        Strategy strategy = random_strategy(random, problem, micro_batches);
        for (UpdateConfig& update : strategy.updates) update.refetch &= refetches;
        Comparison comparison(random, problem, strategy);
        for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
            RandomChange drawn = random_change(random, problem, micro_batches);
            for (auto& [op, update] : drawn.updates) update.refetch &= refetches;
            comparison.step(drawn, counts);
        }
        if (HasFatalFailure()) return;
        comparison.count(counts);
    }
    // All ways were taken.
    const EvaluatorEffort& effort = counts.effort;
    EXPECT_GT(counts.accepted, 500);
    EXPECT_GT(counts.rejected, 500);
    EXPECT_GT(effort.rejected_by_parts, 100);
    EXPECT_GT(effort.rejected_by_load, 50);
    EXPECT_GT(effort.whole, 100);
    EXPECT_GT(effort.memory, 50);
    EXPECT_LT(effort.whole + effort.memory, effort.evaluations / 2);
}

TEST(IncrementalEvaluator, EqualsTheEvaluatorInSchedules) {
    Counts counts;
    for (std::uint64_t seed = 1; seed <= 120; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const RandomPipeline of(random, seed % 4 != 0);
        ProblemOptions options = of.options;
        if (draw(random, 2) == 0) {
            const Problem unlimited = make_problem(of.graph, of.machine, options);
            const RandomStages stages = draw_stages(random, unlimited, of.stages);
            const auto drawn = random_pipeline(random, unlimited, stages);
            if (drawn) limit_memory(options, unlimited, *drawn);
        }
        const Problem problem = make_problem(of.graph, of.machine, options);
        const RandomStages stages = draw_stages(random, problem, of.stages);
        const auto start = random_pipeline(random, problem, stages);
        if (!start) continue;
        Comparison comparison(random, problem, *start);
        for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
            comparison.step(random_pipeline_change(random, problem, stages), counts);
        }
        if (HasFatalFailure()) return;
        comparison.count(counts);
    }
    // All ways were taken.
    const EvaluatorEffort& effort = counts.effort;
    EXPECT_GT(counts.accepted, 500);
    EXPECT_GT(counts.rejected, 500);
    EXPECT_GT(counts.broken, 100);
    EXPECT_GT(effort.rejected_by_parts, 20);
    EXPECT_GT(effort.rejected_by_load, 20);
    EXPECT_GT(effort.whole, 100);
    EXPECT_GT(effort.memory, 50);
    EXPECT_LT(effort.whole + effort.memory, effort.evaluations / 2);
}

}  // namespace
}  // namespace partita::plan
