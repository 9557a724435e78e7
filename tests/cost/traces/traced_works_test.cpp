// SPDX-License-Identifier: Apache-2.0
#include "cost/traces/traced_works.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace partita::cost {
namespace {

using Finding = TracedWorks::Finding;
using graph::DType;
using graph::Shape;
using testing::ElementsAre;

MeasuredWork work(std::string text) {
    MeasuredWork work;
    work.signature = {.family = {}, .text = std::move(text)};
    work.time.date = "2026-11-29T00:00:00Z";
    return work;
}

OperatorCalls called(std::string name, std::vector<Shape> shapes,
                     const std::vector<int>& microseconds,
                     std::optional<DType> dtype = DType::float32) {
    OperatorCalls calls{
        .name = std::move(name), .shapes = std::move(shapes), .dtype = dtype, .times = {}};
    for (const int each : microseconds) calls.times.push_back(partita::microseconds(each));
    return calls;
}

const std::string kMatMul = " MatMul.13 (float32[2,4,64], float32[64,32]) -> (float32[2,4,32])";

TEST(TracedWorks, SumTheMediansOfWhatAWorkCalls) {
    const OperatorTimes times{.calls = {called("aten::mm", {{8, 64}, {64, 32}}, {10, 30, 20}),
                                        called("aten::mm", {{8, 32}, {32, 64}}, {100}),
                                        called("aten::mm", {{64, 8}, {8, 32}}, {1000, 1000}),
                                        called("aten::mm", {{7, 64}, {64, 32}}, {1})},
                              .device = {}};
    const std::vector works = {work("forward 11" + kMatMul), work("backward 11" + kMatMul),
                               work("backward 10" + kMatMul), work("backward 01" + kMatMul)};
    const TracedWorks traced = traced_works(works, times);
    ASSERT_THAT(traced.findings, testing::Each(Finding::found));
    std::vector<Time> medians;
    for (const MeasuredWork& row : traced.rows) medians.push_back(row.time.median);
    EXPECT_THAT(medians, ElementsAre(microseconds(20), microseconds(1100), microseconds(100),
                                     microseconds(1000)));
    EXPECT_EQ(traced.rows[0].time.repetitions, 3);
    EXPECT_EQ(traced.rows[1].time.repetitions, 1);
    EXPECT_LE(traced.rows[0].time.lower, traced.rows[0].time.median);
    EXPECT_EQ(traced.rows[0].signature.text, works[0].signature.text);
    EXPECT_EQ(traced.rows[0].time.date, "2026-11-29T00:00:00Z");
    EXPECT_THAT(traced.used, ElementsAre(1, 1, 1, 0));
}

TEST(TracedWorks, TakeProductsTransposedOrWithABias) {
    const std::string text =
        "forward 111 \"partita\":Linear.17 (float32[8,64], float32[64,32], float32[32]) -> "
        "(float32[8,32])";
    const std::vector works = {work(text)};
    const auto first = [&](OperatorCalls calls) {
        const TracedWorks traced = traced_works(works, {.calls = {std::move(calls)}, .device = {}});
        return traced.rows.empty() ? Time{} : traced.rows[0].time.median;
    };
    EXPECT_EQ(first(called("aten::addmm", {{32}, {8, 64}, {64, 32}}, {5})), microseconds(5));
    EXPECT_EQ(first(called("aten::linear", {{2, 4, 64}, {32, 64}, {32}}, {5})), microseconds(5));
    EXPECT_EQ(first(called("aten::mm", {{32, 64}, {64, 8}}, {5})), microseconds(5));
    EXPECT_EQ(first(called("aten::matmul", {{2, 4, 64}, {64, 32}}, {5})), microseconds(5));
    EXPECT_EQ(first(called("aten::mm", {{8, 64}, {64, 33}}, {5})), Time{});
    EXPECT_EQ(first(called("aten::bmm", {{2, 8, 64}, {2, 64, 32}}, {5})), Time{});
    EXPECT_EQ(first(called("aten::mm", {{8, 64}, {64, 32}}, {5}, DType::bfloat16)), Time{});
    EXPECT_EQ(first(called("aten::mm", {{8, 64}, {64, 32}}, {5}, std::nullopt)), microseconds(5));
}

TEST(TracedWorks, KnowWhatEachOperatorIsCalled) {
    struct Case {
        std::string work;
        OperatorCalls calls;
    };
    const Case cases[] = {
        {"forward 1 Relu.14 (float32[4,6]) -> (float32[4,6])",
         called("aten::clamp_min_", {{24}, {}}, {1})},
        {"backward 1 Relu.14 (float32[4,6]) -> (float32[4,6])",
         called("aten::threshold_backward", {{4, 6}, {4, 6}, {}}, {1})},
        {"forward 11 Add.14 (float32[4,6], float32[6]) -> (float32[4,6])",
         called("aten::add", {{6}, {4, 6}, {}}, {1})},
        {"backward 10 Mul.14 (float32[4,6], float32[]) -> (float32[4,6])",
         called("aten::mul", {{4, 6}, {}}, {1})},
        {"forward Softmax.13 axis=-1 (float32[4,6]) -> (float32[4,6])",
         called("aten::_softmax", {{4, 6}, {}, {}}, {1})},
        {"forward 111 LayerNormalization.17 axis=-1 (float32[4,6], float32[6], float32[6]) -> "
         "(float32[4,6])",
         called("aten::native_layer_norm", {{2, 2, 6}, {}, {6}, {6}, {}}, {1})},
        {"backward 111 LayerNormalization.17 axis=-1 (float32[4,6], float32[6], float32[6]) -> "
         "(float32[4,6])",
         called("aten::native_layer_norm_backward",
                {{4, 6}, {4, 6}, {}, {4, 1}, {4, 1}, {6}, {6}, {}}, {1})},
        {"forward 11 Conv.22 pads=1,1,1,1 (float32[1,3,8,8], float32[4,3,3,3], -) -> "
         "(float32[1,4,8,8])",
         called("aten::cudnn_convolution", {{1, 3, 8, 8}, {4, 3, 3, 3}, {}, {}}, {1})},
        {"backward 11 Conv.22 pads=1,1,1,1 (float32[1,3,8,8], float32[4,3,3,3], -) -> "
         "(float32[1,4,8,8])",
         called("aten::convolution_backward", {{1, 4, 8, 8}, {1, 3, 8, 8}, {4, 3, 3, 3}}, {1})},
        {"forward Attention.23 is_causal=1 q_num_heads=2 kv_num_heads=2 (float32[3,5,8], "
         "float32[3,7,8], "
         "float32[3,7,8]) -> (float32[3,5,8])",
         called("aten::_flash_attention_forward", {{3, 5, 2, 4}, {3, 7, 2, 4}, {3, 7, 2, 4}}, {1})},
        {"backward 111 Attention.23 scale=1 (float32[3,2,5,4], float32[3,2,7,4], float32[3,2,7,4]) "
         "-> "
         "(float32[3,2,5,4])",
         called("aten::_scaled_dot_product_flash_attention_backward",
                {{3, 2, 5, 4}, {3, 2, 5, 4}, {3, 2, 7, 4}, {3, 2, 7, 4}}, {1})},
        {"forward 10 Gather.13 axis=0 (float32[100,8], int64[2,3]) -> (float32[2,3,8])",
         called("aten::embedding", {{100, 8}, {2, 3}}, {1})},
        {"backward 10 Gather.13 axis=0 (float32[100,8], int64[2,3]) -> (float32[2,3,8])",
         called("aten::embedding_dense_backward", {{2, 3, 8}, {2, 3}}, {1})},
        {"backward 1 MaxPool.12 kernel_shape=2,2 (float32[1,3,8,8]) -> (float32[1,3,4,4])",
         called("aten::max_pool2d_with_indices_backward",
                {{1, 3, 4, 4}, {1, 3, 8, 8}, {}, {1, 3, 4, 4}}, {1})},
        {"accumulate float32 24", called("aten::add_", {{4, 6}, {4, 6}, {}}, {1})},
        {"forward MatMul.13 (float32[2,3,4,5], float32[2,3,5,6]) -> (float32[2,3,4,6])",
         called("aten::bmm", {{6, 4, 5}, {6, 5, 6}}, {1})},
    };
    for (const auto& [text, calls] : cases) {
        const std::vector works = {work(text)};
        const TracedWorks traced = traced_works(works, {.calls = {calls}, .device = {}});
        EXPECT_EQ(traced.findings[0], Finding::found) << text;
    }
}

// Strides are in no file.
TEST(TracedWorks, RefuseWorksThatTheyCannotTellApart) {
    const std::string operands = " (float32[1,3,8,8], float32[4,3,1,1], -) -> ";
    const std::vector works = {
        work("forward Conv.22 strides=1,1" + operands + "(float32[1,4,8,8])"),
        work("forward Conv.22 strides=2,2" + operands + "(float32[1,4,4,4])")};
    const OperatorTimes times{
        .calls = {called("aten::cudnn_convolution", {{1, 3, 8, 8}, {4, 3, 1, 1}}, {1})},
        .device = {}};
    EXPECT_THAT(traced_works(works, times).findings, testing::Each(Finding::ambiguous));
    EXPECT_THAT(traced_works({works.data(), 1}, times).findings, ElementsAre(Finding::found));
}

TEST(TracedWorks, SayWhyTheyFindNothing) {
    const std::vector works = {work("forward" + kMatMul), work("loss sum float32 4096"),
                               work("forward NonZero.13 (float32[4]) -> (int64[1,4])"),
                               work("nonsense")};
    const TracedWorks traced = traced_works(
        works, {.calls = {called("aten::mm", {{-8, 64}, {64, 32}}, {1}),
                          called("aten::mm", {}, {1}), called("aten::relu", {{}}, {1})},
                .device = {}});
    EXPECT_THAT(traced.findings, ElementsAre(Finding::not_called, Finding::no_rule,
                                             Finding::no_rule, Finding::no_rule));
    EXPECT_TRUE(traced.rows.empty());
}

// key_averages() has linear, and addmm inside it.
TEST(TracedWorks, TakeTheLongestOfATableThatSaysNothingOfNesting) {
    OperatorTimes times{.calls = {called("aten::add_", {{4, 6}, {4, 6}}, {9, 9}),
                                  called("aten::add", {{4, 6}, {4, 6}}, {20}),
                                  called("aten::add", {{24}, {24}}, {1})},
                        .device = {}};
    const std::vector works = {work("accumulate float32 24")};
    EXPECT_EQ(traced_works(works, times).rows[0].time.median, microseconds(9));
    times.is_flat = true;
    EXPECT_EQ(traced_works(works, times).rows[0].time.median, microseconds(20));
}

// cudnn_convolution leaves the bias to add_, and both are inside of conv2d.
TEST(TracedWorks, CountABiasOnce) {
    OperatorTimes times{
        .calls = {called("aten::cudnn_convolution", {{1, 3, 8, 8}, {4, 3, 3, 3}}, {50}),
                  called("aten::add_", {{1, 4, 8, 8}, {1, 4, 1, 1}}, {7})},
        .device = {}};
    const std::vector works = {
        work("forward Conv.22 pads=1,1,1,1 (float32[1,3,8,8], float32[4,3,3,3], float32[4]) -> "
             "(float32[1,4,8,8])")};
    EXPECT_EQ(traced_works(works, times).rows[0].time.median, microseconds(50));
    times.is_flat = true;
    EXPECT_EQ(traced_works(works, times).rows[0].time.median, microseconds(57));
}

}  // namespace
}  // namespace partita::cost
