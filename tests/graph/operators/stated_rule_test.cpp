// SPDX-License-Identifier: Apache-2.0
//
// What an operator says of itself is what a row of the table would say.
#include "graph/stated_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/operators/op_rules.h"
#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::rule_of_example;
using testing::text_of;
using ::testing::ThrowsMessage;

using Texts = std::vector<std::pair<std::string, AttributeValue>>;

/// Of the example's op, which says that of itself.
OpRule rule_of_op(const char* example, const Texts& attributes) {
    const OpGraph graph = testing::graph_of(example);
    Op op = graph.op(testing::last_op(graph));
    for (const auto& [name, value] : attributes) op.attributes.set(name, value);
    EXPECT_TRUE(states_rule(op.attributes));
    return stated_rule(graph, op);
}

constexpr const char* kDense = "com.mine:Dense | 8,64 64,32 -> 8,32 |";

TEST(StatedRule, IsThatOfTheOperatorWithTheSameLetters) {
    EXPECT_EQ(text_of(rule_of_op(kDense, {{"partita_rule", "m k, k n -> m n"},
                                          {"partita_linear", "0 1"},
                                          {"partita_saves", "0 1"}})),
              text_of(rule_of_example("MatMul | 8,64 64,32 -> 8,32 |")));
    const OpRule norm = rule_of_op("com.mine:Norm | 4,8,16 -> 4,8,16 |",
                                   {{"partita_rule", "... k -> ... k"}, {"partita_whole", "k"}});
    EXPECT_EQ(text_of(norm), "d0 d1 k -> d0 d1 k; whole k; saves 0; flops 512");
    EXPECT_FALSE(norm.conservative);
    EXPECT_TRUE(rule_of_example(kDense).conservative);
}

TEST(StatedRule, CountsItsFlopsAndWhatItSaves) {
    const OpRule rule = rule_of_op("com.mine:Gate | 4,8 4,8 -> 4,8 |",
                                   {{"partita_rule", "b n, b n -> b n"},
                                    {"partita_saves", "1 y0"},
                                    {"partita_flops_per_point", std::int64_t{5}}});
    EXPECT_EQ(rule.flops, Flops(5 * 4 * 8));
    EXPECT_EQ(rule.saves_operands, 2U);
    EXPECT_EQ(rule.saves_results, 1U);
    EXPECT_FALSE(rule.matrix_product);
    EXPECT_TRUE(rule_of_op(kDense, {{"partita_rule", "m k, k n -> m n"}}).matrix_product);
}

TEST(StatedRule, WhatIsWrongNamesTheAttribute) {
    const auto expect_complaint = [](const Texts& attributes, const char* says) {
        EXPECT_THAT([&] { static_cast<void>(rule_of_op(kDense, attributes)); },
                    ThrowsMessage<InputError>(HasSubstr(says)));
    };
    const auto of_rule = [&](const char* rule, const char* says) {
        expect_complaint({{"partita_rule", rule}}, says);
    };
    of_rule(std::string(40'000, 'a').c_str(), "more than 8192 characters");
    of_rule("m k, k n", "'partita_rule': expected one '->'");
    of_rule("m K, K n -> m n", "'K' is no letter");
    of_rule("m k -> m n", "expected 2 operands, got 1");
    of_rule("m k, k n -> m n, m", "expected 1 results, got 2");
    of_rule("m k, n k -> m n", "operand 1");
    of_rule("b m k, k n -> b m n", "expected 3 dims");
    const auto of_other = [&](const char* name, const char* value, const char* says) {
        expect_complaint({{"partita_rule", "m k, k n -> m n"}, {name, value}}, says);
    };
    of_other("partita_linear", "7", "'partita_linear'");
    of_other("partita_saves", "y", "'partita_saves'");
    of_other("partita_combine", "mean", "expected sum, max, min, product or none, got \"mean\"");
    of_other("partita_whole", "z", "an unknown letter");
}

TEST(StatedShapes, FollowFromTheNames) {
    Attributes attributes;
    attributes.set(std::string(kStatedRule), std::string("b m k, k n -> b m n, b"));
    const std::vector<Shape> operands = {{2, 8, 64}, {64, 32}};
    const auto shapes = stated_shapes(attributes, operands, 2);
    ASSERT_TRUE(shapes.has_value());
    EXPECT_THAT(*shapes, ElementsAre(ElementsAre(2, 8, 32), ElementsAre(2)));
    EXPECT_EQ(stated_shapes(attributes, operands, 1), std::nullopt);
    attributes.set(std::string(kStatedRule), std::string("b m k, k n -> b m n z"));
    EXPECT_EQ(stated_shapes(attributes, operands, 1), std::nullopt);
    const auto shapes_of = [&](const char* rule, const std::vector<Shape>& of) {
        attributes.set(std::string(kStatedRule), std::string(rule));
        return stated_shapes(attributes, of, 1).value_or(std::vector<Shape>{{-1}}).front();
    };
    EXPECT_THAT(shapes_of("... k, k n -> ... n", operands), ElementsAre(2, 8, 32));
    EXPECT_THAT(shapes_of("b ... k, ... -> b ...", {{2, 8, 1, 64}, {4}}), ElementsAre(2, 8, 4));
    EXPECT_THAT(shapes_of("... -> ...", {{}}), ElementsAre());
    EXPECT_THAT(shapes_of(".. k, k n -> .. n", operands), ElementsAre(-1));
    EXPECT_THAT(shapes_of("... k, k n -> . n", operands), ElementsAre(-1));
}

}  // namespace
}  // namespace partita::graph
