// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/loss_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "graph/operators/op_rule.h"
#include "tests/plan/network_builder.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using graph::OpId;
using graph::TensorId;
using testing::ElementsAre;
using testing::IsEmpty;

const Policy kCrossEntropy{.loss = LossKind::cross_entropy};

/// Ops x, w, MatMul, Softmax and two outputs: "probabilities" and, behind it, "scores".
class LossOfTwoOutputs : public testing::Test {
protected:
    LossOfTwoOutputs() {
        const TensorId x = build_.source("x", graph::TensorRole::input, {6, 4});
        scores_ = build_.add("MatMul", {x, build_.weight({4, 10})}, {{6, 10}})[0];
        const TensorId softmax = build_.add("Softmax", {scores_}, {{6, 10}})[0];
        build_.graph.add_output("probabilities", softmax);
        build_.graph.add_output("scores", scores_);
    }

    NetworkBuilder build_;
    TensorId scores_;
};

TEST_F(LossOfTwoOutputs, AddsANumberForEachRow) {
    Policy policy = kCrossEntropy;
    policy.loss_output = build_.graph.tensor(scores_).name;
    const auto loss = graph_with_loss(build_.graph, Mode::training, policy);
    ASSERT_TRUE(loss);
    ASSERT_EQ(loss->graph.op_count(), build_.graph.op_count() + 1);
    const OpId output = loss->ops.back();
    const graph::Op& op = loss->graph.op(output);
    ASSERT_EQ(op.name, "scores");
    ASSERT_EQ(op.inputs.size(), 2U);
    EXPECT_EQ(op.inputs[0], scores_);
    const graph::Tensor& rows = loss->graph.tensor(op.inputs[1]);
    EXPECT_THAT(rows.shape, ElementsAre(6, 1));
    const graph::Op& sum = loss->graph.op(rows.producer);
    EXPECT_EQ(sum.type, "ReduceLogSumExp");
    EXPECT_THAT(sum.inputs, ElementsAre(scores_));
    // The other output is as it was.
    EXPECT_EQ(loss->graph.op(loss->ops[loss->ops.size() - 2]).inputs.size(), 1U);
    const graph::OpRule rule = graph::rule_of(loss->graph, output);
    EXPECT_TRUE(rule.factors[1].splittable) << "classes";
    EXPECT_THAT(rule.operands[1].dims[0].factors, ElementsAre(0));
    EXPECT_THAT(rule.operands[1].dims[1].factors, IsEmpty());
    EXPECT_NO_THROW(graph::check(loss->graph));
}

TEST_F(LossOfTwoOutputs, AddsNothingOtherwise) {
    EXPECT_FALSE(graph_with_loss(build_.graph, Mode::inference, kCrossEntropy));
    EXPECT_FALSE(graph_with_loss(build_.graph, Mode::training, {.loss = LossKind::mse}));
}

TEST_F(LossOfTwoOutputs, KeepsRowsInFloat32AtLeast) {
    build_.graph.tensor(scores_).dtype = graph::DType::bfloat16;
    const auto loss = graph_with_loss(build_.graph, Mode::training, kCrossEntropy);
    const graph::Op& op = loss->graph.op(loss->ops.back());
    EXPECT_EQ(loss->graph.tensor(op.inputs[1]).dtype, graph::DType::float32);
}

TEST_F(LossOfTwoOutputs, AddsNamesThatNothingHas) {
    build_.source("scores/log_sum_exp", graph::TensorRole::input, {1});
    const auto loss = graph_with_loss(build_.graph, Mode::training, kCrossEntropy);
    EXPECT_TRUE(loss->graph.find_op("scores/log_sum_exp@"));
    EXPECT_NO_THROW(graph::check(loss->graph));
}

TEST(LossGraph, AddsNoNameOfATensor) {
    NetworkBuilder build;
    const TensorId x = build.source("x", graph::TensorRole::input, {6, 4});
    const TensorId scores = build.add("MatMul", {x, build.weight({4, 10})}, {{6, 10}})[0];
    build.graph.tensor(scores).name = "y/log_sum_exp";
    build.graph.add_output("y", scores);
    const auto loss = graph_with_loss(build.graph, Mode::training, kCrossEntropy);
    ASSERT_TRUE(loss);
    EXPECT_NO_THROW(graph::check(loss->graph));
    EXPECT_TRUE(loss->graph.find_op("y/log_sum_exp@"));
    EXPECT_TRUE(is_added_by_loss(build.graph, "y/log_sum_exp@", "ReduceLogSumExp"));
    EXPECT_FALSE(is_added_by_loss(build.graph, "y/log_sum_exp", "MatMul"));
    EXPECT_FALSE(is_added_by_loss(build.graph, "x/log_sum_exp", "ReduceLogSumExp"));
}

TEST_F(LossOfTwoOutputs, ConstrainsOpsWhereTheyAreNow) {
    const cost::Machine machine = switched_machine(3);
    const OpId probabilities(build_.graph.op_count() - 2);
    const OpId scores(build_.graph.op_count() - 1);
    ProblemOptions options{
        .mode = Mode::training, .objective = Objective::step_time, .policy = kCrossEntropy};
    options.constraints.allowed.resize(build_.graph.op_count());
    options.constraints.allowed[0] = {2};
    options.constraints.allowed[probabilities.index()] = {0};
    options.constraints.allowed[scores.index()] = {1, 2};
    options.constraints.together = {{OpId(0U), scores}};
    const Problem problem = make_problem(build_.graph, machine, options);
    const auto allowed = [&](const char* name) {
        return problem.constraints().allowed_devices(*problem.graph().find_op(name));
    };
    EXPECT_THAT(allowed("x"), ElementsAre(2));
    EXPECT_THAT(allowed("probabilities/log_sum_exp"), ElementsAre(0));
    EXPECT_THAT(allowed("probabilities"), ElementsAre(0));
    EXPECT_THAT(allowed("scores/log_sum_exp"), ElementsAre(1, 2));
    EXPECT_THAT(allowed("scores"), ElementsAre(1, 2));
    EXPECT_THAT(problem.constraints().together(),
                ElementsAre(ElementsAre(OpId(0U), *problem.graph().find_op("scores"))));
}

}  // namespace
}  // namespace partita::plan
