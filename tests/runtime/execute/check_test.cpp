// SPDX-License-Identifier: Apache-2.0
//
// `execute --check`: a plan that computes what one device computes passes, whatever its loss is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "plan/config.h"
#include "plan/lower.h"
#include "plan/simulate.h"
#include "runtime/execute/execute.h"
#include "search/random.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::runtime {
namespace {

using graph::OpGraph;
using graph::Shape;
using graph::TensorId;
using graph::TensorRole;

constexpr int kDevices = 4;

/// One layer of each: LSTM, product, softmax over its columns.
OpGraph recurrent_classifier() {
    constexpr std::int64_t kSteps = 5;
    constexpr std::int64_t kBatch = 4;
    constexpr std::int64_t kUnits = 48;
    constexpr std::int64_t kClasses = 200;
    plan::NetworkBuilder builder;
    const TensorId x = builder.source("x", TensorRole::input, {kSteps, kBatch, kUnits});
    const Shape gates = {1, 4 * kUnits, kUnits};
    const auto steps =
        builder.add("LSTM", {x, builder.weight(gates), builder.weight(gates)},
                    {{kSteps, 1, kBatch, kUnits}}, plan::attribute("hidden_size", kUnits));
    const auto scores = builder.add("MatMul", {steps[0], builder.weight({kUnits, kClasses})},
                                    {{kSteps, 1, kBatch, kClasses}});
    builder.add("Softmax", scores, {{kSteps, 1, kBatch, kClasses}},
                plan::attribute("axis", std::int64_t{-1}));
    builder.add_outputs();
    return std::move(builder.graph);
}

ExecuteResult checked(const plan::Problem& problem, const plan::Strategy& strategy) {
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    ExecuteRequest request;
    request.problem = &problem;
    request.strategy = &strategy;
    request.tasks = &tasks;
    request.order = timeline.commit_order;
    request.devices = "cpu:2";
    request.sources.random_weights = 1;
    request.warmup = 0;
    request.iterations = 1;
    request.check = true;
    return execute(request);
}

// The columns of a softmax add up to 1, so the gradient of their sum is 0: what is computed are rounding
// errors, which differ as soon as sums are taken in another order.
TEST(Check, OfASumOverASoftmaxPasses) {
    const OpGraph graph = recurrent_classifier();
    const cost::Machine machine = plan::switched_machine(kDevices);
    const plan::Policy policy{.loss = plan::LossKind::sum};
    const plan::Problem problem = plan::make_problem(graph, machine,
                                                     {.mode = plan::Mode::training,
                                                      .objective = plan::Objective::step_time,
                                                      .policy = policy,
                                                      .constraints = {},
                                                      .input_sample_dims = {1}});
    int legal = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        search::Random random(seed);
        plan::Strategy strategy = plan::random_strategy(random, problem, 1);
        strategy.policy = policy;
        if (plan::find_fault(problem, strategy)) continue;
        ++legal;
        for (const Difference& each : checked(problem, strategy).differences) {
            EXPECT_TRUE(each.ok()) << each.what << ": " << each.absolute << " is " << each.relative
                                   << "; seed " << seed << ", " << text_of(problem, strategy);
        }
    }
    EXPECT_GE(legal, 5);
}

}  // namespace
}  // namespace partita::runtime
