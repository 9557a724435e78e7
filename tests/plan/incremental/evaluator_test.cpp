// SPDX-License-Identifier: Apache-2.0
//
// Incremental evaluations equal whole ones, whatever the limit, the memory, the schedule and the
// policy.
#include "plan/incremental/evaluator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan/legality/config_legality.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/plan/strategy/random_pipelines.h"
#include "tests/support/draws.h"

namespace partita::plan {
namespace {

using search::Random;

/// As much memory as a strategy needs, so that some fit and some do not, or half of that, so that
/// few do.
void limit_memory(Random& random, ProblemOptions& options, const Problem& unlimited,
                  const Strategy& strategy) {
    const Evaluation drawn = make_evaluator(unlimited, Scheduler::rank)->evaluate(strategy);
    Bytes most;
    for (const DeviceUse& use : drawn.devices) most = std::max(most, use.memory);
    options.constraints.memory_limit = draw(random, 2) == 0 ? most : Bytes(most.raw() / 2);
}

struct Counts {
    int accepted = 0;
    int rejected = 0;
    int broken = 0;  ///< schedules
    EvaluatorEffort effort;
    int less_overflow = 0;  ///< and accepted, though slower than the limit
};

/// A strategy that changes, evaluated both ways.
class Comparison {
public:
    Comparison(Random& random, const Problem& problem, const Strategy& start,
               const IncrementalLimits& limits = {})
        : random_(random),
          problem_(problem),
          whole_(make_evaluator(problem, Scheduler::rank)),
          evaluator_(problem, limits),
          strategy_(start) {
        EXPECT_EQ(evaluator_.start(strategy_), score_of(whole_->evaluate(strategy_)));
    }

    [[nodiscard]] const Strategy& strategy() const { return strategy_; }

    void step(const std::vector<OpChange>& drawn, Counts& counts) {
        const StrategyChange change{.ops = drawn};
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
        if (draw(random_, 4) == 0) {
            limit.overflow = std::max(Bytes{0}, expected.overflow + Bytes(draw(random_, 3) - 1));
        }
        const auto actual = evaluator_.evaluate(change, limit);
        if (limit.better_than(expected)) {
            ASSERT_EQ(actual, std::nullopt) << text_of(problem_, next);
            ++counts.rejected;
            return;
        }
        ASSERT_EQ(actual, expected) << text_of(problem_, next);
        counts.less_overflow += limit.value < expected.value ? 1 : 0;
        if (draw(random_, 3) != 0) {
            evaluator_.accept();
            strategy_ = std::move(next);
            ++counts.accepted;
        } else {
            evaluator_.reject();
        }
        ASSERT_EQ(evaluator_.strategy(), strategy_);
    }

    /// Goes on from another strategy.
    void restart(const Strategy& next) {
        if (find_fault(problem_, next)) return;
        ASSERT_EQ(evaluator_.start(next), score_of(whole_->evaluate(next)));
        ASSERT_EQ(evaluator_.strategy(), next);
        strategy_ = next;
    }
    /// From one that differs by this.
    void restart(const std::vector<OpChange>& drawn) {
        Strategy next = strategy_;
        apply(next, {.ops = drawn});
        restart(next);
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

/// A network on a machine, and a strategy.
struct RandomTraining {
    explicit RandomTraining(Random& random)
        : graph(random_network(random, 2 + draw(random, 5), Layers::any)),
          machine(switched_machine(2 + draw(random, 4))),
          problem(make_problem(graph, machine,
                               {.mode = Mode::training, .objective = Objective::step_time})),
          start(random_strategy(random, problem, 1)) {}

    graph::OpGraph graph;
    cost::Machine machine;
    Problem problem;
    Strategy start;
};

// A change beyond what the increments can number, in messages or in time, is no fault of the
// user's.
TEST(IncrementalEvaluator, EvaluatesAsAWholeWhatLeavesItsLimits) {
    Counts counts;
    for (const std::uint64_t seed : support::seeds(30)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const RandomTraining training(random);
        const Evaluation first =
            make_evaluator(training.problem, Scheduler::rank)->evaluate(training.start);
        IncrementalLimits limits;
        if (seed % 2 == 0) {
            limits.messages = 3;
        } else {
            limits.work = 4 * first.value.raw();
        }
        Comparison comparison(random, training.problem, training.start, limits);
        for (int i = 0; i < 30 && !HasFatalFailure(); ++i) {
            comparison.step(random_change(random, training.problem, comparison.strategy()), counts);
        }
        comparison.count(counts);
    }
    EXPECT_GT(counts.effort.whole, support::draws(50));
    EXPECT_GT(counts.effort.evaluations, counts.effort.whole + support::draws(150));
    EXPECT_GT(counts.accepted, support::draws(50));
}

// What a rejected change had no room for does not concern the changes after it.
TEST(IncrementalEvaluator, EvaluatesIncrementallyAgainAfterAChangeBeyondItsLimits) {
    int beyond = 0;
    for (const std::uint64_t seed : support::seeds(500)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const RandomTraining training(random);
        IncrementalEvaluator evaluator(training.problem, {.messages = 3});
        const Score limit = evaluator.start(training.start);
        const auto is_whole = [&](const StrategyChange& change) {
            const std::int64_t before = evaluator.effort().whole;
            if (evaluator.evaluate(change, limit)) evaluator.reject();
            return evaluator.effort().whole > before;
        };
        if (is_whole({})) continue;  // the start is beyond them, too
        for (int i = 0; i < 10; ++i) {
            const std::vector<OpChange> drawn =
                random_change(random, training.problem, training.start);
            Strategy next = training.start;
            apply(next, {.ops = drawn});
            if (find_fault(training.problem, next) || !is_whole({.ops = drawn})) continue;
            ++beyond;
            EXPECT_FALSE(is_whole({}));
        }
    }
    EXPECT_GT(beyond, support::draws(10));
}

TEST(IncrementalEvaluator, EqualsTheEvaluator) {
    Counts counts;
    for (const std::uint64_t seed : support::seeds(150)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = seed % 3 == 0 ? 1 + draw(random, 3) : 1;
        const graph::OpGraph graph = random_network(
            random, 1 + draw(random, 7), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const cost::Machine machine = random_machine(random, 6);
        const Objective objective = seed % 20 == 0 ? Objective::throughput : Objective::step_time;
        ProblemOptions options{.mode = Mode::training, .objective = objective};
        if (draw(random, 2) == 0) {
            const Problem unlimited = make_problem(graph, machine, options);
            limit_memory(random, options, unlimited,
                         random_strategy(random, unlimited, micro_batches));
        }
        const Problem problem = make_problem(graph, machine, options);
        const Strategy start = random_strategy(random, problem, micro_batches);
        Comparison comparison(random, problem, start);
        for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
            std::vector<OpChange> drawn = random_change(random, problem, comparison.strategy());
            comparison.step(drawn, counts);
            if (i % 10 == 7) comparison.restart(drawn);
            if (i == 20) {
                const Strategy other = random_strategy(random, problem, micro_batches);
                comparison.restart(other);
            }
        }
        if (HasFatalFailure()) return;
        comparison.count(counts);
    }
    // All ways were taken.
    const EvaluatorEffort& effort = counts.effort;
    EXPECT_GT(counts.accepted, support::draws(250));
    EXPECT_GT(counts.rejected, support::draws(250));
    EXPECT_GT(effort.rejected_by_parts, support::draws(50));
    EXPECT_GT(effort.rejected_by_load, support::draws(12));
    EXPECT_GT(effort.whole, support::draws(50));
    EXPECT_GT(effort.memory, support::draws(250));
    EXPECT_GT(counts.less_overflow, support::draws(50));
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
        const std::vector<OpChange> moved{{graph::OpId(bit), next.ops[bit]}};
        ASSERT_EQ(evaluator.evaluate({.ops = moved}, any), score_of(whole->evaluate(next)));
        evaluator.accept();
        fitted = fitted || evaluator.score().overflow == Bytes{0};
    }
    EXPECT_TRUE(fitted);
    EXPECT_EQ(evaluator.effort().whole, 15);  // given costs have no tasks to follow
}

TEST(IncrementalEvaluator, EqualsTheEvaluatorInSchedules) {
    Counts counts;
    // 661: an op of a later chunk reads for its backward what an earlier one computes again.
    std::vector<std::uint64_t> seeds{661};
    std::ranges::copy(support::seeds(80), std::back_inserter(seeds));
    for (const std::uint64_t seed : seeds) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        RandomPipeline of(random, seed % 4 != 0);
        if (seed % 4 == 1) of.recompute(random);
        ProblemOptions options = of.options;
        if (draw(random, 2) == 0) {
            const Problem unlimited = make_problem(of.graph, of.machine, options);
            const RandomStages stages = draw_stages(random, unlimited, of.stages);
            const auto drawn = random_pipeline(random, unlimited, stages);
            if (drawn) limit_memory(random, options, unlimited, *drawn);
        }
        const Problem problem = make_problem(of.graph, of.machine, options);
        RandomStages stages = draw_stages(random, problem, of.stages);
        stages.refetch = draw(random, 2) == 0;
        const auto start = random_pipeline(random, problem, stages);
        if (!start) continue;
        Comparison comparison(random, problem, *start);
        for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
            comparison.step(random_pipeline_change(random, problem, comparison.strategy(), stages),
                            counts);
            if (i % 10 == 7)
                comparison.restart(
                    random_pipeline_change(random, problem, comparison.strategy(), stages));
        }
        if (HasFatalFailure()) return;
        comparison.count(counts);
    }
    // All ways were taken.
    const EvaluatorEffort& effort = counts.effort;
    EXPECT_GT(counts.accepted, support::draws(250));
    EXPECT_GT(counts.rejected, support::draws(250));
    EXPECT_GT(counts.broken, support::draws(50));
    EXPECT_GT(effort.rejected_by_parts, support::draws(10));
    EXPECT_GT(effort.rejected_by_load, support::draws(10));
    EXPECT_GT(effort.whole, support::draws(50));
    EXPECT_GT(effort.memory, support::draws(25));
    EXPECT_LT(effort.whole + effort.memory, 2 * effort.evaluations / 3);
}

}  // namespace
}  // namespace partita::plan
