// SPDX-License-Identifier: Apache-2.0
//
// Problems whose costs are measured: what parts are priced by, and that nothing else changes.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/config.h"
#include "plan/evaluator.h"
#include "plan/incremental/evaluator.h"
#include "plan/lower.h"
#include "plan/op_costs.h"
#include "tests/plan/random_layouts.h"
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
    const cost::WorkSignature signature = OpWorks::forward_signature(size);
    work.signature = &signature;
    cost::Profile profile{.file = "p.sqlite", .date = {}, .devices = {}, .keys = {}};
    profile.devices.push_back(
        {.device = cost::device_key(problem.machine().device(0)),
         .works = {cost::measured_work(work, {.median = time, .versions = {}, .date = {}})},
         .transfers = {},
         .overheads = {}});
    return profile;
}

TEST(MeasuredCosts, OfAPartAreTheTimeOfItsTasks) {
    const graph::OpGraph graph = two_layers();
    const cost::Machine machine = switched_machine(4);
    const Problem analytic = make_problem(graph, machine);
    const std::string rows = analytic.rule(kProduct).factors[0].name;
    // Measured: the last of four parts. All four do the same.
    const Problem problem = support::with_profile(
        analytic, profile_of_part(analytic, rows, 4, 3, microseconds(77)), {});
    Strategy strategy = on_devices(std::vector<int>(graph.op_count(), 0));
    strategy.configs[kProduct.index()] = {.degrees = {{rows, 4}},
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
    EXPECT_NE(problem.cost_source(kProduct, 0), cost::CostSource::measured);
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
        Strategy strategy = without_refetch(random_strategy(random, problem, 1));
        if (find_fault(problem, strategy)) continue;
        const auto whole = make_evaluator(problem, Scheduler::rank);
        IncrementalEvaluator evaluator(problem);
        ASSERT_EQ(evaluator.start(strategy), score_of(whole->evaluate(strategy)));
        for (int i = 0; i < 20; ++i) {
            RandomChange drawn = random_change(random, problem, 1);
            for (auto& [op, update] : drawn.updates) update.refetch = false;
            const StrategyChange change{drawn.configs, drawn.updates};
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
        if (tasks.size() != same.size()) continue;  // collectives were joined otherwise
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
