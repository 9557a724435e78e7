// SPDX-License-Identifier: Apache-2.0
//
// Parts by hand. tests/semantics holds every operator's parts to its meaning.
#include "graph/operators/part_op.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

using ::testing::ElementsAre;
using Ints = std::vector<std::int64_t>;

/// The index-th of `degree` parts of the factor in an op of tests/graph/operators/examples.h.
PartOp part(std::string_view example, std::string_view factor, std::int64_t degree,
            std::int64_t index) {
    const OpGraph graph = testing::graph_of(example);
    const OpId op = testing::last_op(graph);
    const OpRule rule = rule_of(graph, op);
    Box box = whole_box(rule);
    for (std::size_t f = 0; f < box.size(); ++f) {
        if (rule.factors[f].name != factor) continue;
        EXPECT_TRUE(rule.factors[f].splittable) << factor;
        box[f] = part_of(box[f], degree, index);
    }
    return part_op(graph, op, rule, box);
}

// Kernel 3, padding 1: outputs 0-4 read -1 ... 4, outputs 4-8 read 3 ... 8.
TEST(PartOp, OfAConvPadsOnlyAtTheBordersOfTheWhole) {
    const char* const conv = "Conv | 1,3,8 4,3,3 -> 1,4,8 | pads=1,1";
    const PartOp first = part(conv, "w", 2, 0);
    EXPECT_THAT(first.operands[0].region.dims[2], ElementsAre(Range{0, 5}));
    EXPECT_EQ(first.attributes.get_ints("pads"), (Ints{1, 0}));
    const PartOp second = part(conv, "w", 2, 1);
    EXPECT_THAT(second.operands[0].region.dims[2], ElementsAre(Range{3, 8}));
    EXPECT_EQ(second.attributes.get_ints("pads"), (Ints{0, 1}));
}

TEST(PartOp, OfAGroupedConvHasFewerGroups) {
    const char* const conv = "Conv | 1,6,8 9,2,3 -> 1,9,6 | group=3";
    EXPECT_EQ(part(conv, "g", 2, 0).attributes.get_int("group", 0), 2);
    EXPECT_EQ(part(conv, "g", 2, 1).attributes.get_int("group", 0), 1);
    EXPECT_EQ(part(conv, "f", 3, 1).attributes.get_int("group", 0), 3);
}

TEST(PartOp, TakesItsShapeTargetFromTheRule) {
    const PartOp second = part("Reshape | 3,5,8 [15,8] -> 15,8", "d0", 2, 1);
    EXPECT_EQ(second.operands[1].source, PartOperand::Source::integers);
    EXPECT_EQ(second.operands[1].integers, (Ints{5, 8}));
    EXPECT_THAT(second.results[0].region.dims[0], ElementsAre(Range{10, 15}));
}

// Queries 4 to 8 of 8 attend keys 0 to 4 + their number, as the last of 8 valid keys would.
TEST(PartOp, OfCausalQueriesKnowsWhereTheyAre) {
    const char* const causal =
        "Attention | 3,4,8,5 3,4,6,5 3,4,6,5 -> 3,4,8,5 | is_causal=1 opset=23";
    const PartOp second = part(causal, "s", 2, 1);
    ASSERT_EQ(second.operands.size(), 7U);
    EXPECT_EQ(second.operands[6].source, PartOperand::Source::integers);
    EXPECT_EQ(second.operands[6].integers, (Ints{8, 8, 8}));
    EXPECT_EQ(second.opset, 24);
    EXPECT_EQ(part(causal, "h", 2, 1).operands.size(), 3U);
}

// The last of 4 blocks meets the first in step 1: in a ring.
TEST(PartOp, OfBlocksOfAttentionKnowsWhichTheyAre) {
    const char* const blocks =
        "partita:BlockAttention | 3,4,8,5 3,4,12,5 3,4,12,5 -> 3,4,8,5 3,4,8 3,4,8 | blocks=4 "
        "step=1";
    const PartOp second = part(blocks, "p", 2, 1);
    EXPECT_EQ(second.attributes.get_ints("query_blocks"), (Ints{2, 3}));
    EXPECT_THAT(second.operands[0].region.dims[2], ElementsAre(Range{4, 8}));
    EXPECT_THAT(second.operands[1].region.dims[2], ElementsAre(Range{0, 3}, Range{9, 12}));
}

// RULES.md 5.
TEST(PartOp, OfAGatherMasksRowsThatItLacks) {
    const char* const gather = "Gather | 7,3 i5 -> 5,3";
    EXPECT_FALSE(part(gather, "i0", 2, 1).row_mask);
    const PartOp second = part(gather, "x", 2, 1);
    EXPECT_EQ(second.row_mask, (RowMask{.operand = 1, .extent = 7, .rows = {4, 7}}));
    EXPECT_EQ(second.results[0].combine, Combine::sum);
}

// RULES.md 8.
TEST(PartOp, TheFirstPartOfAReductionAppliesTheBias) {
    const char* const gemm = "Gemm | 4,6 6,5 5 -> 4,5";
    EXPECT_EQ(part(gemm, "k", 2, 0).operands[2].source, PartOperand::Source::region);
    EXPECT_EQ(part(gemm, "k", 2, 1).operands[2].source, PartOperand::Source::left_out);
    EXPECT_EQ(part(gemm, "m", 2, 1).operands[2].source, PartOperand::Source::region);
    EXPECT_EQ(part(gemm, "m", 2, 1).results[0].combine, Combine::none);
}

// RULES.md 9: a mean of 3 times 3/5 and a mean of 2 times 2/5.
TEST(PartOp, OfAMeanDividesByTheWholeExtent) {
    const char* const mean = "ReduceMean | 4,5 [1] -> 4,1";
    EXPECT_DOUBLE_EQ(part(mean, "d1", 2, 0).results[0].weight, 0.6);
    EXPECT_DOUBLE_EQ(part(mean, "d1", 2, 1).results[0].weight, 0.4);
    EXPECT_DOUBLE_EQ(part(mean, "d0", 2, 1).results[0].weight, 1.0);
}

// Doubled by whole positions: outputs 5-10 read 0 ... 5 with the margin, which make 0-10.
TEST(PartOp, OfAResizeCutsItsHaloOff) {
    const PartOp second =
        part("Resize | 1,1,5 _ _ [1,1,10] -> 1,1,10 | mode=\"linear\"", "d2", 2, 1);
    EXPECT_THAT(second.operands[0].region.dims[2], ElementsAre(Range{0, 5}));
    EXPECT_EQ(second.operands[3].integers, (Ints{1, 1, 10}));
    EXPECT_THAT(second.results[0].crop, ElementsAre(Range{0, 1}, Range{0, 1}, Range{5, 10}));
}

TEST(PartOp, OfOneDirectionKnowsWhichItIs) {
    const char* const lstm =
        "LSTM | 5,2,6 2,16,6 2,16,4 -> 5,2,2,4 | hidden_size=4 direction=\"bidirectional\"";
    EXPECT_EQ(part(lstm, "d", 2, 0).attributes.get_string("direction", ""), "forward");
    EXPECT_EQ(part(lstm, "d", 2, 1).attributes.get_string("direction", ""), "reverse");
}

TEST(PartOp, OfASqueezeNamesTheAxesThatTheWholeDrops) {
    const PartOp first = part("Squeeze | 1,2,3 -> 2,3", "d0", 2, 0);
    EXPECT_EQ(first.operands[1].integers, (Ints{0}));
}

TEST(PartOp, OfTheWholeIsTheOp) {
    const PartOp whole = part("MatMul | 4,6 6,5 -> 4,5", "", 1, 0);
    EXPECT_EQ(whole.type, "MatMul");
    EXPECT_EQ(whole.operands[0].region, whole_region({4, 6}));
    EXPECT_EQ(whole.results[0].region, whole_region({4, 5}));
    EXPECT_EQ(whole.results[0].combine, Combine::none);
    EXPECT_FALSE(whole.row_mask);
}

}  // namespace
}  // namespace partita::graph
