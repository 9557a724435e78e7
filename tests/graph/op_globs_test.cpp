// SPDX-License-Identifier: Apache-2.0
#include "graph/op_globs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace partita::graph {
namespace {

TEST(Glob, StarStandsForAnyTextAndQuestionMarkForOneCharacter) {
    EXPECT_TRUE(glob_matches("/enc/*", "/enc/layer.0/MatMul"));
    EXPECT_TRUE(glob_matches("*", ""));
    EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
    EXPECT_TRUE(glob_matches("layer.?", "layer.1"));
    EXPECT_FALSE(glob_matches("layer.?", "layer.12"));
    EXPECT_FALSE(glob_matches("/enc", "/enc/a"));
    EXPECT_FALSE(glob_matches("*a*b", "xxaxx"));
    EXPECT_TRUE(glob_matches("a[0]", "a[0]"));  // no character classes: ONNX names hold brackets
}

TEST(NameOfRepeats, IsWhatComesBeforeTheNumber) {
    EXPECT_EQ(name_of_repeats("encoder/layer.12"), "encoder/layer.");
    EXPECT_EQ(name_of_repeats("encoder/layer.1"), name_of_repeats("encoder/layer.0"));
    EXPECT_EQ(name_of_repeats("layer1/pool"), "");
    EXPECT_EQ(name_of_repeats("7"), "");
    EXPECT_EQ(name_of_repeats(""), "");
}

TEST(LayersOf, AreBlocksThatRepeatInTheOrderOfTheModel) {
    OpGraph graph;
    const auto add = [&](const char* name, const char* block, OpKind kind = OpKind::compute) {
        Op op;
        op.name = name;
        op.block = block;
        op.kind = kind;
        graph.add_op(std::move(op));
    };
    add("w", "decoder.9", OpKind::parameter);
    add("a", "embed");
    add("b", "layer.1");
    add("c", "layer.0");
    add("d", "layer.1");
    add("e", "lonely.3");
    add("f", "decoder.0");
    add("g", "decoder.1");
    add("h", "");
    EXPECT_THAT(layers_of(graph),
                testing::ElementsAre("layer.1", "layer.0", "decoder.0", "decoder.1"));
}

}  // namespace
}  // namespace partita::graph
