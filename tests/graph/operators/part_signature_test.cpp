// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/part_signature.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

PartSignature signature(std::string_view example) {
    const OpGraph graph = testing::graph_of(example);
    const OpId op = testing::last_op(graph);
    const OpRule rule = rule_of(graph, op);
    return part_signature(graph, op, part_op(graph, op, rule, whole_box(rule)));
}

/// Of the index-th of `degree` parts of the factor.
PartSignature signature(std::string_view example, std::string_view factor, std::int64_t degree,
                        std::int64_t index) {
    const OpGraph graph = testing::graph_of(example);
    const OpId op = testing::last_op(graph);
    const OpRule rule = rule_of(graph, op);
    Box box = whole_box(rule);
    for (std::size_t f = 0; f < box.size(); ++f) {
        if (rule.factors[f].name == factor) box[f] = part_of(box[f], degree, index);
    }
    return part_signature(graph, op, part_op(graph, op, rule, box));
}

TEST(PartSignature, SaysOperatorAttributesAndExtents) {
    EXPECT_EQ(signature("Gemm | 8,64 32,64 32 -> 8,32 | transB=1").text,
              "Gemm.0 transB=1 (float32[8,64], float32[32,64], float32[32]) -> (float32[8,32])");
    EXPECT_EQ(signature("Gemm | 8,64 32,64 32 -> 8,32 | transB=1").family,
              "Gemm.0 transB=1 (float32/2, float32/2, float32/1) -> (float32/2)");
}

TEST(PartSignature, PartsThatDoTheSameShareOne) {
    const char* const product = "MatMul | 8,64 64,32 -> 8,32";
    EXPECT_EQ(signature(product, "n", 4, 0), signature(product, "n", 4, 3));
    EXPECT_EQ(signature(product, "n", 4, 0), signature("MatMul | 8,64 64,8 -> 8,8"));
    const char* const conv = "Conv | 1,3,16 4,3,3 -> 1,4,16 | pads=1,1";
    EXPECT_EQ(signature(conv, "w", 4, 1), signature(conv, "w", 4, 2));
    const char* const rows = "Gather | 100,16 i8 -> 8,16";
    EXPECT_EQ(signature(rows, "x", 2, 0), signature(rows, "x", 2, 1));
}

TEST(PartSignature, OfAPartAtTheBorderTellsItsPads) {
    const char* const conv = "Conv | 1,3,16 4,3,3 -> 1,4,16 | pads=1,1";
    EXPECT_NE(signature(conv, "w", 4, 0).text, signature(conv, "w", 4, 1).text);
    EXPECT_NE(signature(conv, "w", 4, 0).text, signature(conv, "w", 4, 3).text);
    EXPECT_EQ(signature(conv, "w", 4, 0).family, signature(conv, "w", 4, 1).family);
}

TEST(PartSignature, TellsWhateverChangesTheWork) {
    const std::vector<const char*> others = {
        "Gemm | 8,64 32,64 32 -> 8,32 | transB=1",            // the one
        "Gemm | 8,64 32,64 _ -> 8,32 | transB=1",             // an operand left out
        "Gemm | 8,64 64,32 32 -> 8,32",                       // an attribute
        "Gemm | 8,64 32,64 32 -> 8,32 | transB=1 alpha=0.5",  // a value of one
        "Gemm | 8,63 32,63 32 -> 8,32 | transB=1",            // extents
        "Gemm | h8,64 h32,64 h32 -> h8,32 | transB=1",        // an element type
        "MatMul | 8,64 64,32 -> 8,32",                        // the operator
        "ReduceSum | 8,64 [0] -> 64 | keepdims=0",            // the value of an integer operand
        "ReduceSum | 8,64 [1] -> 8 | keepdims=0",
        "ReduceSum | 64,64 [0] -> 64 | keepdims=0",
        "ReduceSum | 64,64 [1] -> 64 | keepdims=0",
        "Gather | 100,16 i8 -> 8,16",
    };
    for (std::size_t a = 0; a < others.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
            EXPECT_NE(signature(others[a]).text, signature(others[b]).text) << others[a] << '\n'
                                                                            << others[b];
        }
    }
    EXPECT_NE(signature(others.back()).text, signature(others.back(), "x", 2, 0).text)
        << "half of the rows are a mask more than all rows";
    OpGraph newer = testing::graph_of(others[0]);
    const OpId op = testing::last_op(newer);
    const OpRule rule = rule_of(newer, op);
    newer.op(op).opset = 13;
    EXPECT_THAT(part_signature(newer, op, part_op(newer, op, rule, whole_box(rule))).text,
                ::testing::StartsWith("Gemm.13 "));
}

TEST(PartSignature, OneFamilyHoldsAllSizes) {
    EXPECT_EQ(signature("MatMul | 8,64 64,32 -> 8,32").family,
              signature("MatMul | 1,7 7,5 -> 1,5").family);
    EXPECT_NE(signature("MatMul | 8,64 64,32 -> 8,32").family,
              signature("MatMul | 2,8,64 64,32 -> 2,8,32").family);
    const char* const grouped = "Conv | 1,6,8 9,2,3 -> 1,9,6 | group=3";
    EXPECT_EQ(signature(grouped).family, signature(grouped, "g", 2, 0).family);
    EXPECT_NE(signature(grouped).family, signature("Conv | 1,6,8 9,6,3 -> 1,9,6 | group=1").family);
}

}  // namespace
}  // namespace partita::graph
