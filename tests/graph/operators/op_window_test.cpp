// SPDX-License-Identifier: Apache-2.0
//
// Windowed dims against the definitions of the operators, element by element.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "graph/operators/op_rule.h"
#include "tests/graph/operators/examples.h"

namespace partita::graph {
namespace {

using testing::rule_of_example;

/// Smallest range that holds the positions; empty when there are none.
Range hull(const std::vector<std::int64_t>& positions) {
    if (positions.empty()) return {};
    const auto [low, high] = std::minmax_element(positions.begin(), positions.end());
    return {*low, *high + 1};
}

bool contains(Range outer, Range inner) {
    return inner.begin >= inner.end || (outer.begin <= inner.begin && inner.end <= outer.end);
}

struct ConvCase {
    std::int64_t extent, kernel, stride, dilation, pad_begin, pad_end, outputs;
};

ConvCase any_conv() {
    using rc::gen::inRange;
    ConvCase c{};
    c.kernel = *inRange<std::int64_t>(1, 5);
    c.stride = *inRange<std::int64_t>(1, 4);
    c.dilation = *inRange<std::int64_t>(1, 4);
    c.pad_begin = *inRange<std::int64_t>(0, 5);
    c.pad_end = *inRange<std::int64_t>(0, 5);
    const std::int64_t reach = (c.kernel - 1) * c.dilation;
    const std::int64_t least = std::max<std::int64_t>(1, reach + 1 - c.pad_begin - c.pad_end);
    c.extent = least + *inRange<std::int64_t>(0, 12);
    c.outputs = (c.extent + c.pad_begin + c.pad_end - reach - 1) / c.stride + 1;
    return c;
}

Range any_part(std::int64_t extent) {
    const auto begin = *rc::gen::inRange<std::int64_t>(0, extent);
    return {begin, *rc::gen::inRange<std::int64_t>(begin + 1, extent + 1)};
}

std::string attributes_of(const ConvCase& c) {
    return fmt::format("strides={}, dilations={}, pads={},{}", c.stride, c.dilation, c.pad_begin,
                       c.pad_end);
}

const Window& window_of(const OpRule& rule, std::size_t dim) {
    RC_ASSERT(rule.operands[0].dims[dim].window.has_value());
    return *rule.operands[0].dims[dim].window;
}

/// What the part of a convolution reads, by its definition.
std::vector<std::int64_t> positions_read(const ConvCase& c, Range part) {
    std::vector<std::int64_t> positions;
    for (std::int64_t i = part.begin; i < part.end; ++i) {
        for (std::int64_t j = 0; j < c.kernel; ++j) {
            const std::int64_t p = i * c.stride - c.pad_begin + j * c.dilation;
            if (p >= 0 && p < c.extent) positions.push_back(p);
        }
    }
    return positions;
}

bool has_no_gaps(const ConvCase& c) {
    return c.dilation == 1 && c.kernel >= c.stride;
}

RC_GTEST_PROP(ConvWindow, HoldsWhatThePartReads, ()) {
    const ConvCase c = any_conv();
    const OpRule rule = rule_of_example(fmt::format("Conv | 2,3,{} 4,3,{} -> 2,4,{} | {}", c.extent,
                                                    c.kernel, c.outputs, attributes_of(c)));
    const Range part = any_part(c.outputs);
    const Range range = operand_range(window_of(rule, 2), part, c.extent);
    const Range read = hull(positions_read(c, part));
    RC_ASSERT(contains(range, read));
    // Only gaps within and between windows may make it larger, at the border.
    if (has_no_gaps(c)) RC_ASSERT(range == read);
}

RC_GTEST_PROP(PoolWindow, HoldsWhatThePartReads, ()) {
    const ConvCase c = any_conv();
    const OpRule rule =
        rule_of_example(fmt::format("AveragePool | 2,3,{} -> 2,3,{} | {} "
                                    "kernel_shape={},",
                                    c.extent, c.outputs, attributes_of(c), c.kernel));
    const Range part = any_part(c.outputs);
    const Range range = operand_range(window_of(rule, 2), part, c.extent);
    RC_ASSERT(contains(range, hull(positions_read(c, part))));
    if (has_no_gaps(c)) RC_ASSERT(range == hull(positions_read(c, part)));
}

// The transposed convolution scatters: position p adds to outputs p*stride - pad + j*dilation.
RC_GTEST_PROP(ConvTransposeWindow, HoldsWhatThePartReads, ()) {
    using rc::gen::inRange;
    const auto kernel = *inRange<std::int64_t>(1, 5);
    const auto stride = *inRange<std::int64_t>(1, 4);
    const auto dilation = *inRange<std::int64_t>(1, 3);
    const auto pad = *inRange<std::int64_t>(0, 3);
    const auto extent = *inRange<std::int64_t>(3, 10);
    const std::int64_t outputs = (extent - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad;
    RC_PRE(outputs >= 1);
    const OpRule rule = rule_of_example(fmt::format(
        "ConvTranspose | 2,3,{} 3,4,{} -> 2,4,{} | strides={}, dilations={}, pads={},{}", extent,
        kernel, outputs, stride, dilation, pad, pad));
    const Range part = any_part(outputs);
    std::vector<std::int64_t> read;
    for (std::int64_t p = 0; p < extent; ++p) {
        for (std::int64_t j = 0; j < kernel; ++j) {
            const std::int64_t i = p * stride - pad + j * dilation;
            if (i >= part.begin && i < part.end) read.push_back(p);
        }
    }
    const Range range = operand_range(window_of(rule, 2), part, extent);
    RC_ASSERT(contains(range, hull(read)));
    if (dilation == 1 && kernel >= stride) RC_ASSERT(range == hull(read));
}

// SAME pads so that there are ceil(extent / stride) outputs; UPPER puts the odd one at the end.
RC_GTEST_PROP(ConvWindow, ResolvesAutoPad, ()) {
    using rc::gen::inRange;
    const auto kernel = *inRange<std::int64_t>(1, 6);
    const auto stride = *inRange<std::int64_t>(1, 4);
    const auto extent = *inRange<std::int64_t>(1, 20);
    const bool upper = *rc::gen::arbitrary<bool>();
    const std::int64_t outputs = (extent + stride - 1) / stride;
    const std::int64_t total = std::max<std::int64_t>(0, (outputs - 1) * stride + kernel - extent);
    const ConvCase c{.extent = extent,
                     .kernel = kernel,
                     .stride = stride,
                     .dilation = 1,
                     .pad_begin = upper ? total / 2 : (total + 1) / 2,
                     .pad_end = 0,
                     .outputs = outputs};
    const OpRule rule = rule_of_example(
        fmt::format("Conv | 1,3,{} 4,3,{} -> 1,4,{} | strides={}, auto_pad=\"SAME_{}\"", extent,
                    kernel, outputs, stride, upper ? "UPPER" : "LOWER"));
    const Range part = any_part(outputs);
    const Range range = operand_range(window_of(rule, 2), part, extent);
    RC_ASSERT(contains(range, hull(positions_read(c, part))));
    if (has_no_gaps(c)) RC_ASSERT(range == hull(positions_read(c, part)));
}

RC_GTEST_PROP(SliceWindow, IsExact, ()) {
    using rc::gen::inRange;
    const auto extent = *inRange<std::int64_t>(2, 20);
    const auto step = *inRange<std::int64_t>(1, 4);
    const auto start = *inRange<std::int64_t>(1, extent);
    const bool from_end = *rc::gen::arbitrary<bool>();
    const std::int64_t outputs = (extent - start + step - 1) / step;
    const OpRule rule =
        rule_of_example(fmt::format("Slice | {} [{}] [{}] [0] [{}] -> {}", extent,
                                    from_end ? start - extent : start, extent, step, outputs));
    const Range part = any_part(outputs);
    RC_ASSERT(operand_range(window_of(rule, 0), part, extent) ==
              (Range{start + part.begin * step, start + (part.end - 1) * step + 1}));
}

RC_GTEST_PROP(PadWindow, IsExact, ()) {
    using rc::gen::inRange;
    const auto extent = *inRange<std::int64_t>(1, 12);
    const auto begin = *inRange<std::int64_t>(-extent + 1, 5);
    const auto end = *inRange<std::int64_t>(0, 5);
    const std::int64_t outputs = extent + begin + end;
    RC_PRE(begin != 0 || end != 0);
    const OpRule rule =
        rule_of_example(fmt::format("Pad | {} [{},{}] -> {}", extent, begin, end, outputs));
    const Range part = any_part(outputs);
    std::vector<std::int64_t> read;
    for (std::int64_t i = part.begin; i < part.end; ++i) {
        if (i - begin >= 0 && i - begin < extent) read.push_back(i - begin);
    }
    RC_ASSERT(operand_range(window_of(rule, 0), part, extent) == hull(read));
}

// Interpolation reads the two (cubic: four) positions around the sample, clamped to the operand.
// Only whole multiples, up or down, are windowed: elsewhere no part can say its own coordinates.
RC_GTEST_PROP(ResizeWindow, HoldsWhatThePartReads, ()) {
    using rc::gen::inRange;
    const auto times = *inRange<std::int64_t>(2, 5);
    const auto shorter = *inRange<std::int64_t>(1, 12);
    const bool up = *rc::gen::arbitrary<bool>();
    const std::int64_t extent = up ? shorter : shorter * times;
    const std::int64_t outputs = up ? shorter * times : shorter;
    const double scale = static_cast<double>(outputs) / static_cast<double>(extent);
    const auto mode = *rc::gen::element<std::string>("half_pixel", "asymmetric");
    const auto interpolation = *rc::gen::element<std::string>("linear", "cubic");
    const OpRule rule =
        rule_of_example(fmt::format("Resize | 1,1,{} _ _ [1,1,{}] -> 1,1,{} | mode=\"{}\" "
                                    "coordinate_transformation_mode=\"{}\"",
                                    extent, outputs, outputs, interpolation, mode));
    const Range part = any_part(outputs);
    std::vector<std::int64_t> read;
    for (std::int64_t i = part.begin; i < part.end; ++i) {
        const double at = static_cast<double>(i);
        const double x = mode == "asymmetric" ? at / scale : (at + 0.5) / scale - 0.5;
        const auto floor = static_cast<std::int64_t>(std::floor(x));
        const std::int64_t around = interpolation == "cubic" ? 1 : 0;
        for (std::int64_t p = floor - around; p <= floor + 1 + around; ++p) {
            read.push_back(std::clamp<std::int64_t>(p, 0, extent - 1));
        }
    }
    RC_ASSERT(contains(operand_range(window_of(rule, 2), part, extent), hull(read)));
}

TEST(ResizeWindow, OtherScalesAreNotSplit) {
    for (const char* const text :
         {"Resize | 1,1,4 _ _ [1,1,7] -> 1,1,7", "Resize | 1,1,4 _ 3 -> 1,1,8",
          "Resize | 1,1,4 _ 3 -> 1,1,4",
          "Resize | 1,1,4 _ _ [1,1,8] -> 1,1,8 | coordinate_transformation_mode=\"align_corners\"",
          "Resize | 1,1,12 _ _ [1,1,4] -> 1,1,4 | mode=\"nearest\""}) {
        EXPECT_FALSE(rule_of_example(text).factors[2].splittable) << text;
    }
}

TEST(OperandRange, EmptyOutputsReadNothing) {
    EXPECT_EQ(operand_range({.before = 1, .after = 1}, {4, 4}, 10), (Range{0, 0}));
}

TEST(OperandRange, PaddingIsClippedAway) {
    // Outputs 0 and 1 of a window of 1 with 2 positions of padding lie before the operand.
    EXPECT_EQ(operand_range({.before = 2, .after = -2}, {0, 2}, 10), (Range{0, 0}));
    EXPECT_EQ(operand_range({.before = 2, .after = -2}, {0, 3}, 10), (Range{0, 1}));
    EXPECT_EQ(operand_range({.before = 2, .after = -2}, {11, 14}, 10), (Range{9, 10}));
}

TEST(OperandRange, DivisorsRoundDown) {
    // Output 2 reads position floor(-1 / 2) = -1, which is padding.
    EXPECT_EQ(operand_range({.before = 3, .after = -3, .divisor = 2}, {0, 3}, 10), (Range{0, 0}));
    EXPECT_EQ(operand_range({.before = 3, .after = -3, .divisor = 2}, {0, 4}, 10), (Range{0, 1}));
}

}  // namespace
}  // namespace partita::graph
