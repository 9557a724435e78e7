// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/op_rule.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

using testing::complaint_about;
using testing::graph_of;
using testing::last_op;
using testing::rule_of_example;
using testing::text_of;

std::string message_of(const char* example) {
    try {
        static_cast<void>(rule_of_example(example));
    } catch (const InputError& error) {
        return error.what();
    }
    return "";
}

TEST(OpRule, ContradictingShapesAreErrors) {
    EXPECT_EQ(message_of("MatMul | 8,64 63,32 -> 8,32"),
              "node 'op' (MatMul), operand 1, dim 0: expected extent 64, got shape [63 32]. "
              "Correct the model or export it again.");
    EXPECT_EQ(message_of("Add | 2,3 4 -> 2,3"),
              "node 'op' (Add), operand 1, dim 0: expected extent 3, got shape [4]. Correct the "
              "model or export it again.");
    EXPECT_EQ(message_of("Gemm | 2,3,4 4,5 -> 2,5"),
              "node 'op' (Gemm), operand 0: expected 2 dims, got shape [2 3 4]. Correct the model "
              "or export it again.");
    EXPECT_EQ(message_of("Softmax | 2,3 -> 2,3 | axis=2"),
              "node 'op' (Softmax), expected an axis in [-2, 2), got 2. Correct the model or "
              "export it again.");
    EXPECT_EQ(message_of("Conv | 1,4,9 6,3,3 -> 1,6,7 | group=4"),
              "node 'op' (Conv), attribute 'group': expected a divisor of the number of channels, "
              "got 4. Correct the model or export it again.");
    EXPECT_EQ(message_of("Conv | 1,4,9 6,4,3 -> 1,6,7 | strides=0,"),
              "node 'op' (Conv), attribute 'strides': expected 1 integers >= 1, got [0]. Correct "
              "the model or export it again.");
    EXPECT_EQ(message_of("GlobalMaxPool | 2 -> 2"),
              "node 'op' (GlobalMaxPool), operand 0: expected 2 or more dims, got shape [2]. "
              "Correct the model or export it again.");
    EXPECT_EQ(message_of("Einsum | 2,3 3,4 -> 2,4 | equation=\"ij->ij\""),
              "node 'op' (Einsum), attribute 'equation': expected 2 operands, got \"ij->ij\". "
              "Correct the model or export it again.");
}

TEST(OpRule, UpperBoundDimsAreNeverSplit) {
    OpGraph graph = graph_of("Gather | 100,16 i7 -> 7,16");
    graph.tensor(TensorId(1u)).upper_bound_dims = 1;  // up to 7 indices
    const OpRule rule = rule_of(graph, last_op(graph));
    EXPECT_EQ(text_of(rule),
              "x d1, i0 -> i0 d1; whole i0; reduce x sum; linear 0; saves 1; flops 0");
    graph.tensor(TensorId(0u)).upper_bound_dims = 1;  // up to 100 rows
    EXPECT_EQ(text_of(rule_of(graph, last_op(graph))),
              "x d1, i0 -> i0 d1; whole i0; reduce x none; linear 0; saves 1; flops 0");
    EXPECT_EQ(complaint_about(graph, last_op(graph), rule_of(graph, last_op(graph))), "");
}

TEST(OpRule, SourcesAndSinksHaveAFactorPerDim) {
    OpGraph graph;
    const TensorId x = graph.add_source({.name = "x", .shape = {2, 3}, .role = TensorRole::input});
    const OpId output = graph.add_output("out", x);
    EXPECT_EQ(text_of(rule_of(graph, OpId(0u))), "-> d0 d1; flops 0");
    EXPECT_EQ(text_of(rule_of(graph, output)), "d0 d1 ->; flops 0");
    EXPECT_EQ(complaint_about(graph, output, rule_of(graph, output)), "");
    EXPECT_FALSE(rule_of(graph, output).factors[0].reduction);
}

TEST(OpRule, GivenCostsAreNotUnsupported) {
    OpGraph graph;
    const TensorId y = graph.add_tensor({.name = "y", .given_bytes = Bytes(5)});
    graph.add_op({.name = "a", .type = "Anything", .outputs = {y}, .given = GivenCosts{}});
    const OpRule rule = rule_of(graph, OpId(0u));
    EXPECT_FALSE(rule.conservative);
    EXPECT_TRUE(rule.factors.empty());
}

// Opset 6 aligned operands by attributes: C [3] belongs to dim 1 of [2 3 4].
TEST(OpRule, BroadcastingByAttributesIsConservative) {
    EXPECT_TRUE(
        rule_of_example("Add | 2,3,4 3 -> 2,3,4 | opset=6 broadcast=1 axis=1").conservative);
    EXPECT_FALSE(rule_of_example("Add | 2,3 2,3 -> 2,3 | opset=6").conservative);
}

TEST(OpRule, ManyOperandsAreAllSaved) {
    std::string example = "Max |";
    for (int i = 0; i < 70; ++i) example += " 2";
    const OpRule rule = rule_of_example(example + " -> 2");
    EXPECT_EQ(rule.saves_operands, ~std::uint64_t{0});
    for (const std::size_t i : {0, 62, 63, 64, 69}) EXPECT_TRUE(rule.saves_operand(i));
    EXPECT_FALSE(rule.saves_result(0));
}

TEST(OpRule, BitsSayWhatIsSaved) {
    OpRule rule;
    rule.saves_operands = 0b10;
    rule.saves_results = std::uint64_t{1} << 63;
    EXPECT_FALSE(rule.saves_operand(0));
    EXPECT_TRUE(rule.saves_operand(1));
    EXPECT_FALSE(rule.saves_operand(65));
    EXPECT_FALSE(rule.saves_result(62));
    EXPECT_TRUE(rule.saves_result(63));
    EXPECT_TRUE(rule.saves_result(65));
}

// A loop of 5 steps over a body with one product of 2*2*3*4 FLOPs.
// a * b: the gradient of a reads b and that of b reads a.
TEST(OpRule, OperandsAreSavedForTheGradientsThatReadThem) {
    OpRule rule;
    rule.operands = {{.dims = {}, .linear = true}, {.dims = {}, .linear = true}};
    rule.saves_operands = 0b11;
    const auto saved = [&rule](std::vector<char> gradient) {
        return std::pair(rule.saves_operand(0, gradient), rule.saves_operand(1, gradient));
    };
    EXPECT_EQ(saved({1, 1}), std::pair(true, true));
    EXPECT_EQ(saved({1, 0}), std::pair(false, true));
    EXPECT_EQ(saved({0, 0}), std::pair(false, false));
    rule.operands[0].linear = false;
    EXPECT_EQ(saved({1, 0}), std::pair(true, true));
    rule.saves_operands = 0;
    EXPECT_EQ(saved({1, 1}), std::pair(false, false));
}

TEST(ControlFlow, WorkIsThatOfTheBodyTimesTheTrips) {
    auto body = std::make_shared<const OpGraph>(graph_of("MatMul | 2,3 3,4 -> 2,4"));
    OpGraph graph;
    const TensorId x = graph.add_source({.name = "x", .shape = {2, 3}, .role = TensorRole::input});
    const TensorId y = graph.add_tensor({.name = "y", .shape = {2, 4}});
    graph.add_op({.name = "loop",
                  .type = "Loop",
                  .inputs = {x},
                  .outputs = {y},
                  .bodies = {{"body", body}},
                  .trip_count = 5});
    EXPECT_EQ(text_of(rule_of(graph, OpId(1u))), ". . -> . .; saves 0 y0; matrix; flops 240");
    EXPECT_FALSE(rule_of(graph, OpId(1u)).conservative);
    graph.op(OpId(1u)).trip_count.reset();
    EXPECT_EQ(rule_of(graph, OpId(1u)).flops, Flops(48));
}

TEST(ControlFlow, WorkOfIfIsThatOfTheCostlierBranch) {
    OpGraph graph;
    const TensorId condition = graph.add_source({.name = "c", .role = TensorRole::input});
    const TensorId y = graph.add_tensor({.name = "y", .shape = {2, 4}});
    graph.add_op(
        {.name = "if",
         .type = "If",
         .inputs = {condition},
         .outputs = {y},
         .bodies = {
             {"then_branch", std::make_shared<const OpGraph>(graph_of("MatMul | 2,3 3,4 -> 2,4"))},
             {"else_branch", std::make_shared<const OpGraph>(graph_of("Relu | 2,4 -> 2,4"))}}});
    EXPECT_EQ(rule_of(graph, OpId(1u)).flops, Flops(48));
}

}  // namespace
}  // namespace partita::graph
