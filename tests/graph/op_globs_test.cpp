// SPDX-License-Identifier: Apache-2.0
#include "graph/op_globs.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace partita::graph
