// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/constant_folding.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>

namespace partita::importers {
namespace {

using graph::DType;
using graph::Shape;
using Integers = std::vector<std::int64_t>;

Literal integers(Shape shape, Integers values, DType dtype = DType::int64) {
    return {.dtype = dtype, .shape = std::move(shape), .values = std::move(values)};
}
Literal list(Integers values) {
    const auto count = static_cast<std::int64_t>(values.size());
    return integers({count}, std::move(values));
}
Literal scalar(std::int64_t value) {
    return integers({}, {value});
}
Literal reals(Shape shape, std::vector<double> values, DType dtype = DType::float32) {
    return {.dtype = dtype, .shape = std::move(shape), .values = std::move(values)};
}

struct Call {
    std::string type;
    std::vector<std::optional<Literal>> operands;
    graph::Attributes attributes = {};
    int opset = 20;
    std::size_t results = 1;
};

std::optional<Literals> run(const Call& call) {
    std::vector<FoldOperand> operands;
    for (const auto& literal : call.operands) {
        FoldOperand operand;
        if (literal) operand = {true, &*literal, &literal->shape};
        operands.push_back(operand);
    }
    return fold({.type = call.type,
                 .opset = call.opset,
                 .attributes = call.attributes,
                 .tensors = {},
                 .operands = operands,
                 .results = call.results});
}

Integers values(const Call& call) {
    const auto results = run(call);
    if (!results) return {-999};
    return std::get<0>(results->at(0).values);
}
Shape shape(const Call& call) {
    const auto results = run(call);
    return results ? results->at(0).shape : Shape{-999};
}
graph::Attributes with(std::string name, graph::AttributeValue value) {
    graph::Attributes attributes;
    attributes.set(std::move(name), std::move(value));
    return attributes;
}

TEST(Folding, ArithmeticBroadcasts) {
    //     [[1] [2]] + [10 20] = [[11 21] [12 22]]
    const Call call{"Add", {integers({2, 1}, {1, 2}), list({10, 20})}};
    EXPECT_EQ(values(call), (Integers{11, 21, 12, 22}));
    EXPECT_EQ(shape(call), (Shape{2, 2}));
}

TEST(Folding, IntegerDivisionTruncatesAndModFollowsTheDivisor) {
    EXPECT_EQ(values({"Div", {list({7, -7}), scalar(2)}}), (Integers{3, -3}));
    EXPECT_EQ(values({"Mod", {list({7, -7, 7}), list({3, 3, -3})}}), (Integers{1, 2, -2}));
    EXPECT_EQ(values({"Mod", {list({-7}), scalar(3)}, with("fmod", std::int64_t{1})}),
              (Integers{-1}));
}

TEST(Folding, WhatCannotBeComputedStaysANode) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
    EXPECT_FALSE(run({"Div", {scalar(1), scalar(0)}}));
    EXPECT_FALSE(run({"Div", {scalar(kLeast), scalar(-1)}}));
    EXPECT_FALSE(run({"Mod", {scalar(1), scalar(0)}}));
    EXPECT_FALSE(run({"Add", {scalar(kMost), scalar(1)}}));
    EXPECT_FALSE(run({"Neg", {scalar(kLeast)}}));
    EXPECT_FALSE(run({"Gather", {list({1, 2}), scalar(2)}}));
    EXPECT_FALSE(run({"Reshape", {list({1, 2, 3}), list({2, 2})}}));
    EXPECT_FALSE(run({"Add", {list({1, 2}), list({1, 2, 3})}}));
    EXPECT_FALSE(run({"Range", {scalar(0), scalar(kMost), scalar(1)}}));
    EXPECT_FALSE(run({"ConstantOfShape", {list({1 << 20, 1 << 20, 1 << 20})}}));
    EXPECT_FALSE(run({"Cast", {reals({}, {1e30})}, with("to", std::int64_t{7})}));
    EXPECT_FALSE(run({"NoSuchOperator", {scalar(1)}}));
}

TEST(Folding, RealsRoundToTheirType) {
    // 2^24 + 1 is no float32; through it comes 2^24.
    const Call up{"Cast", {scalar((1 << 24) + 1)}, with("to", std::int64_t{1})};
    EXPECT_EQ(std::get<1>(run(up)->at(0).values)[0], 16777216.0);
    const Call root{"Sqrt", {reals({}, {2.0})}};
    EXPECT_EQ(std::get<1>(run(root)->at(0).values)[0], static_cast<double>(std::sqrt(2.0f)));
}

TEST(Folding, SliceFollowsNumpy) {
    const Literal x = list({0, 1, 2, 3, 4, 5});
    const auto slice = [&](std::int64_t start, std::int64_t end, std::int64_t step) {
        return values({"Slice", {x, list({start}), list({end}), list({0}), list({step})}});
    };
    constexpr auto kEnd = std::numeric_limits<std::int64_t>::max();
    constexpr auto kBegin = std::numeric_limits<std::int64_t>::min();
    EXPECT_EQ(slice(1, 4, 1), (Integers{1, 2, 3}));
    EXPECT_EQ(slice(-2, kEnd, 1), (Integers{4, 5}));
    EXPECT_EQ(slice(1, kEnd, 2), (Integers{1, 3, 5}));
    EXPECT_EQ(slice(-1, kBegin, -2), (Integers{5, 3, 1}));
    EXPECT_EQ(slice(4, 1, 1), Integers{});
    EXPECT_EQ(values({"Slice", {x, list({1}), list({3}), std::nullopt, std::nullopt}}),
              (Integers{1, 2}));
    // Before opset 10 the bounds were attributes.
    graph::Attributes bounds = with("starts", Integers{2});
    bounds.set("ends", Integers{4});
    EXPECT_EQ(values({"Slice", {x}, bounds, 1}), (Integers{2, 3}));
}

TEST(Folding, ReshapeKeepsZerosAndSolvesMinusOne) {
    const Literal x = integers({2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(shape({"Reshape", {x, list({0, -1, 1})}}), (Shape{2, 3, 1}));
    EXPECT_EQ(shape({"Reshape", {x, list({-1})}}), (Shape{6}));
    EXPECT_FALSE(run({"Reshape", {x, list({-1, -1})}}));
}

TEST(Folding, SqueezeAndUnsqueezeTakeAttributesOrOperands) {
    const Literal x = integers({1, 2, 1}, {1, 2});
    EXPECT_EQ(shape({"Squeeze", {x}}), (Shape{2}));
    EXPECT_EQ(shape({"Squeeze", {x, list({-1})}}), (Shape{1, 2}));
    EXPECT_EQ(shape({"Squeeze", {x}, with("axes", Integers{0}), 11}), (Shape{2, 1}));
    EXPECT_EQ(shape({"Unsqueeze", {list({1, 2}), list({0, -1})}}), (Shape{1, 2, 1}));
    EXPECT_FALSE(run({"Unsqueeze", {list({1, 2}), list({0, 0})}}));
}

TEST(Folding, GathersAndScatters) {
    const Literal x = integers({2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(values({"Gather", {x, list({2, -3})}, with("axis", std::int64_t{1})}),
              (Integers{3, 1, 6, 4}));
    EXPECT_EQ(values({"GatherND", {x, integers({2, 2}, {0, 2, 1, 0})}}), (Integers{3, 4}));
    EXPECT_EQ(
        values({"GatherND", {x, integers({2, 1}, {2, 0})}, with("batch_dims", std::int64_t{1})}),
        (Integers{3, 4}));
    EXPECT_EQ(values({"ScatterND", {x, integers({1, 1}, {1}), integers({1, 3}, {7, 8, 9})}}),
              (Integers{1, 2, 3, 7, 8, 9}));
    EXPECT_EQ(values({"NonZero", {integers({2, 2}, {1, 0, 1, 1})}}), (Integers{0, 1, 1, 0, 0, 1}));
}

TEST(Folding, TransposeExpandTileConcatSplit) {
    const Literal x = integers({2, 3}, {1, 2, 3, 4, 5, 6});
    EXPECT_EQ(values({"Transpose", {x}}), (Integers{1, 4, 2, 5, 3, 6}));
    EXPECT_EQ(values({"Expand", {list({1, 2}), list({2, 1})}}), (Integers{1, 2, 1, 2}));
    EXPECT_EQ(values({"Tile", {integers({1, 2}, {1, 2}), list({2, 2})}}),
              (Integers{1, 2, 1, 2, 1, 2, 1, 2}));
    EXPECT_EQ(values({"Concat", {x, x}, with("axis", std::int64_t{1})}),
              (Integers{1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
    const auto parts = run({"Split", {list({1, 2, 3}), list({1, 2})}, {}, 20, 2});
    ASSERT_TRUE(parts);
    EXPECT_EQ(std::get<0>((*parts)[1].values), (Integers{2, 3}));
}

TEST(Folding, ReducesAlongAxes) {
    const Literal x = integers({2, 3}, {1, 5, 3, 4, 2, 6});
    EXPECT_EQ(values({"ReduceProd", {list({2, 3, 4})}, with("keepdims", std::int64_t{0})}),
              (Integers{24}));
    EXPECT_EQ(values({"ReduceSum", {x, list({0})}}), (Integers{5, 7, 9}));
    EXPECT_EQ(values({"ReduceMax", {x, list({-1})}}), (Integers{5, 6}));
    EXPECT_EQ(values({"ArgMax", {x}, with("axis", std::int64_t{1})}), (Integers{1, 2}));
    EXPECT_EQ(values({"CumSum", {list({1, 2, 3}), scalar(0)}}), (Integers{1, 3, 6}));
    EXPECT_EQ(values({"CumSum", {list({1, 2, 3}), scalar(0)}, with("exclusive", std::int64_t{1})}),
              (Integers{0, 1, 3}));
    EXPECT_EQ(values({"CumSum", {list({1, 2, 3}), scalar(0)}, with("reverse", std::int64_t{1})}),
              (Integers{6, 5, 3}));
}

TEST(Folding, ShapeNeedsNoContents) {
    const Shape known = {4, -1, 6};
    const graph::Attributes last = with("start", std::int64_t{-1});
    const std::vector<FoldOperand> operands = {{true, nullptr, &known}};
    const auto result = fold(
        {.type = "Shape", .opset = 15, .attributes = last, .tensors = {}, .operands = operands});
    ASSERT_TRUE(result);
    EXPECT_EQ(std::get<0>(result->at(0).values), (Integers{6}));
    EXPECT_FALSE(fold(
        {.type = "Shape", .opset = 15, .attributes = {}, .tensors = {}, .operands = operands}));
}

RC_GTEST_PROP(Folding, HalfAndBFloat16SurviveTheirBits, (std::uint16_t bits)) {
    const double half = half_to_double(bits);
    const double wide = bfloat16_to_double(bits);
    if (!std::isnan(half)) RC_ASSERT(double_to_half(half) == bits);
    if (!std::isnan(wide)) RC_ASSERT(double_to_bfloat16(wide) == bits);
}

RC_GTEST_PROP(Folding, TransposingTwiceIsTheIdentity, ()) {
    const auto rows = *rc::gen::inRange<std::int64_t>(0, 6);
    const auto columns = *rc::gen::inRange<std::int64_t>(0, 6);
    Integers numbers(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
    const Literal x = integers({rows, columns}, numbers);
    const auto once = run({"Transpose", {x}});
    RC_ASSERT(once.has_value());
    RC_ASSERT(values({"Transpose", {once->at(0)}}) == numbers);
}

}  // namespace
}  // namespace partita::importers
