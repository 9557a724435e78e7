// SPDX-License-Identifier: Apache-2.0
//
// Problems whose costs are measured: what parts are priced by, and that nothing else changes.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/evaluation/evaluator.h"
#include "plan/incremental/evaluator.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/problem/op_costs.h"
#include "plan/tasks/task_measurements.h"
#include "plan/tensors/lowering_cache.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"
#include "tests/support/random_profile.h"

namespace partita::plan {
namespace {

using graph::OpId;
using search::Random;

const OpId kProduct(2U);  // [8 16] [16 16], of two_layers()

/// That the index-th of `degree` parts of a factor of kProduct takes that long.
cost::Profile profile_of_part(const Problem& problem, std::string_view factor, int degree,
                              int index, Time time) {
    const std::vector<graph::OpRule> rules = graph::rules_of(problem.graph());
    const graph::OpRule& rule = rules[kProduct.index()];
    graph::Box box = graph::whole_box(rule);
    for (std::size_t f = 0; f < box.size(); ++f) {
        if (rule.factors[f].name == factor) box[f] = graph::part_of(box[f], degree, index);
    }
    const PartSize size = size_of_part(problem.graph(), kProduct, rule, box);
    const std::vector<char> none(problem.graph().tensor_count(), 0);
    cost::Work work =
        OpWorks(problem.graph(), rules, none, problem.policy()).forward(kProduct, size);
    const cost::WorkSignature signature = problem.facts().works().forward_signature(kProduct, size);
    work.signature = &signature;
    cost::Profile profile{.file = "p.sqlite", .date = {}, .devices = {}, .keys = {}};
    profile.devices.push_back(
        {.device = cost::device_key(problem.machine().device(0)),
         .works = {cost::measured_work(work, {.median = time, .versions = {}, .date = {}})},
         .transfers = {}});
    return profile;
}

TEST(MeasuredCosts, OfAPartAreTheTimeOfItsTasks) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(4);
    const Problem analytic = make_problem(graph, machine);
    const std::string rows = analytic.facts().rule(kProduct).factors[0].name;
    // Measured: the last of four parts. All four do the same.
    const Problem problem = support::with_profile(
        analytic, profile_of_part(analytic, rows, 4, 3, microseconds(77)), {});
    Strategy strategy = on_devices(std::vector<int>(graph.op_count(), 0));
    strategy.ops[kProduct.index()].config = {.axes = {Axis::along(0, 4)},
                                             .devices = DeviceSet::progression(0, 4, 1)};
    ASSERT_EQ(find_fault(problem, strategy), std::nullopt);
    int parts = 0;
    for (const Task& task : lower(problem, strategy).tasks) {
        if (task.kind != TaskKind::forward || task.op != kProduct) continue;
        EXPECT_EQ(task.duration, microseconds(77));
        EXPECT_EQ(task.source, cost::CostSource::measured);
        ++parts;
    }
    EXPECT_EQ(parts, 4);
    EXPECT_EQ(count_costs(lower(problem, strategy))[1], 4);
    EXPECT_NE(problem.prices().cost_source(kProduct, 0), cost::CostSource::measured);
}

TEST(MeasuredCosts, OfNothingChangeNothing) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = random_network(random, 1 + draw(random, 7), Layers::any);
        const cost::Machine machine = switched_machine(4);
        const ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        const Problem analytic = make_problem(graph, machine, options);
        const Problem problem = support::with_profile(analytic, {}, options);
        const Strategy strategy = random_strategy(random, problem, 1);
        if (find_fault(problem, strategy)) continue;
        const auto value = [&](const Problem& of) {
            return make_evaluator(of, Scheduler::rank)->evaluate(strategy).value;
        };
        EXPECT_EQ(value(problem), value(analytic)) << "seed " << seed;
        EXPECT_NE(problem.costs_digest(), analytic.costs_digest());
    }
}

TEST(MeasuredCosts, AreTheSameIncrementally) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const graph::OpGraph graph = random_network(random, 1 + draw(random, 6), Layers::any);
        const cost::Machine machine = switched_machine(4);
        const ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        const Problem analytic = make_problem(graph, machine, options);
        const Problem problem =
            support::with_profile(analytic, support::random_profile(random, analytic), options);
        Strategy strategy = random_strategy(random, problem, 1);
        if (find_fault(problem, strategy)) continue;
        const auto whole = make_evaluator(problem, Scheduler::rank);
        IncrementalEvaluator evaluator(problem);
        ASSERT_EQ(evaluator.start(strategy), score_of(whole->evaluate(strategy)));
        for (int i = 0; i < 20; ++i) {
            std::vector<OpChange> drawn = random_change(random, problem, strategy);
            const StrategyChange change{.ops = drawn};
            Strategy next = strategy;
            apply(next, change);
            if (find_fault(problem, next)) continue;
            const Score expected = score_of(whole->evaluate(next));
            ASSERT_EQ(evaluator.evaluate(change, expected), expected);
            evaluator.accept();
            strategy = std::move(next);
            ++compared;
        }
    }
    EXPECT_GT(compared, 200);
}

/// What all parts of an op take in all micro-batches.
std::pair<Time, Time> sums_of(const Problem& problem, LoweringCache& cache, OpId op,
                              const Strategy& strategy) {
    const int micro_batches = strategy.policy.micro_batches;
    const MicroBatchRows rows(problem.facts(), micro_batches);
    Time forward;
    Time backward;
    for (int m = 0; m < micro_batches && rows.runs_in(op, m); ++m) {
        const OpLayouts& layouts = cache.of(op, strategy.config(op), micro_batches, m);
        forward += layouts.parts * layouts.forward[0];
        backward += layouts.parts * layouts.backward[0];
    }
    return {forward, backward};
}

TEST(MeasuredCosts, OfAllPartsAreNoLessThanWhatBoundsCountOn) {
    int less_than_whole = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = seed % 3 == 0 ? 1 + draw(random, 3) : 1;
        const graph::OpGraph graph = random_network(
            random, 1 + draw(random, 6), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const cost::Machine machine = switched_machine(4);
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.micro_batches = micro_batches;
        const Problem analytic = make_problem(graph, machine, options);
        const Problem problem =
            support::with_profile(analytic, support::random_profile(random, analytic), options);
        LoweringCache cache(problem);
        for (int i = 0; i < 5; ++i) {
            const Strategy strategy = random_strategy(random, problem, micro_batches);
            if (find_fault(problem, strategy)) continue;
            for (std::size_t o = 0; o < graph.op_count(); ++o) {
                const OpId op(o);
                const auto [forward, backward] = sums_of(problem, cache, op, strategy);
                if (problem.facts().has_forward(op)) {
                    EXPECT_GE(forward, problem.bounds().least_forward_time(op, 0))
                        << graph.op(op).name;
                    less_than_whole += forward < problem.prices().forward_time(op, 0) ? 1 : 0;
                }
                if (problem.facts().has_backward(op)) {
                    EXPECT_GE(backward, problem.bounds().least_backward_time(op, 0))
                        << graph.op(op).name;
                }
            }
        }
    }
    EXPECT_GT(less_than_whole, 100);
}

/// A time of its own for each text.
cost::Measurement time_of(const std::string& text) {
    std::int64_t sum = 1'000;
    for (const char letter : text) sum = (31 * sum + letter) % 1'000'003;
    const Time time(1 + sum);
    return {.median = time, .lower = time, .upper = time, .versions = {}, .date = {}};
}

cost::Profile profile_of_tasks(const Problem& problem, const Strategy& strategy) {
    const TaskGraph tasks = lower(problem, strategy);
    const TaskMeasurements works(problem, strategy, tasks);
    std::map<std::string, cost::MeasuredWork> rows;
    cost::DeviceProfile device{.device = {}, .works = {}, .transfers = {}};
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const TaskId task(t);
        device.device = works.device(task, 1);
        if (auto row = works.work(task, time_of(""))) {
            row->time = time_of(row->signature.text);
            rows.emplace(row->signature.text, *row);
        }
        if (auto row = works.transfer(task, time_of(""), "threads")) {
            device.transfers.push_back(*std::move(row));
        }
    }
    for (auto& [text, row] : rows) device.works.push_back(std::move(row));
    return {.file = "tasks.sqlite", .date = {}, .devices = {std::move(device)}, .keys = {}};
}

TEST(MeasuredCosts, OfAllTasksOfAPlanPriceAllOfThem) {
    int compared = 0;
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Random random(seed);
        const int micro_batches = seed % 3 == 0 ? 1 + draw(random, 3) : 1;
        const graph::OpGraph graph = random_network(
            random, 1 + draw(random, 6), micro_batches > 1 ? Layers::samples_apart : Layers::any);
        const cost::Machine machine = switched_machine(4);
        ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        options.policy.micro_batches = micro_batches;
        const Problem analytic = make_problem(graph, machine, options);
        const Strategy strategy = random_strategy(random, analytic, micro_batches);
        if (find_fault(analytic, strategy)) continue;
        const Problem problem =
            support::with_profile(analytic, profile_of_tasks(analytic, strategy), options);
        const TaskGraph tasks = lower(problem, strategy);
        for (const Task& task : tasks.tasks) {
            if (task.fused > 0) continue;  // fused otherwise than before: another size
            EXPECT_NE(task.source, cost::CostSource::analytic) << task_name(problem, task);
            if (!is_communication(task.kind)) {
                EXPECT_EQ(task.source, cost::CostSource::measured) << task_name(problem, task);
                ++compared;
            }
        }
    }
    EXPECT_GT(compared, 1000);
}

TEST(MeasuredCosts, AreThoseOfTheSourcesThatTasksName) {
    CostCounts counts{};
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Random random(seed);
        const graph::OpGraph graph = random_network(random, 5, Layers::any);
        const cost::Machine machine = switched_machine(4);
        const ProblemOptions options{.mode = Mode::training, .objective = Objective::step_time};
        const Problem analytic = make_problem(graph, machine, options);
        const Problem problem =
            support::with_profile(analytic, support::random_profile(random, analytic), options);
        const Strategy strategy = random_strategy(random, problem, 1);
        if (find_fault(problem, strategy)) continue;
        const TaskGraph tasks = lower(problem, strategy);
        const TaskGraph same = lower(analytic, strategy);
        if (tasks.size() != same.size()) continue;  // collectives were fused otherwise
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            ++counts[static_cast<std::size_t>(tasks.tasks[i].source)];
            if (tasks.tasks[i].source == cost::CostSource::analytic) {
                EXPECT_EQ(tasks.tasks[i].duration, same.tasks[i].duration);
            }
        }
    }
    for (const auto source :
         {cost::CostSource::measured, cost::CostSource::interpolated, cost::CostSource::analytic}) {
        EXPECT_GT(counts[static_cast<std::size_t>(source)], 20);
    }
}

}  // namespace
}  // namespace partita::plan
