// SPDX-License-Identifier: Apache-2.0
//
// Masks that constants decide are found causal when they are, and attention without them gives what
// it gives with them.
#include "runtime/kernels/causal_masks.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/operators/part.h"
#include "runtime/kernels/part_kernel.h"
#include "tests/plan/network_builder.h"

namespace partita::runtime {
namespace {

using graph::TensorId;
using graph::TensorRole;
using plan::add_compute;
using plan::add_source;

constexpr std::int64_t kMostHeld = 1 << 20;
constexpr std::int64_t kLength = 6;
const graph::Shape kByHead = {2, 3, kLength, 4};
const graph::Shape kSquare = {kLength, kLength};

at::Tensor lower() {
    return at::ones({kLength, kLength}, at::kBool).tril();
}

/// Attention under a mask [length length] that the test makes.
class CausalMasksOf : public testing::Test {
protected:
    CausalMasksOf() {
        for (const char* name : {"q", "k", "v"}) {
            operands_.push_back(add_source(graph_, name, TensorRole::input, kByHead));
        }
    }

    TensorId constant(const std::string& name, const at::Tensor& value,
                      graph::DType dtype = graph::DType::float32) {
        const TensorId t =
            add_source(graph_, name, TensorRole::constant, value.sizes().vec(), dtype);
        values_[t] = value;
        return t;
    }
    [[nodiscard]] ConstantValue values() const {
        return [this](TensorId t) { return values_.at(t); };
    }
    void attend(TensorId mask, const graph::Attributes& attributes = {}) {
        graph::Op op;
        op.name = op.type = "Attention";
        op.inputs = operands_;
        op.inputs.push_back(mask);
        op.attributes = attributes;
        graph::Tensor result;
        result.name = "y";
        result.shape = kByHead;
        op.outputs = {graph_.add_tensor(result)};
        attention_ = graph_.add_op(std::move(op));
    }
    [[nodiscard]] PartKernel kernel() const {
        const graph::OpRule rule = graph::rule_of(graph_, attention_);
        return {graph_, attention_, rule, graph::whole_box(rule)};
    }
    [[nodiscard]] bool is_replaced() const {
        CausalMasks masks(graph_, values());
        return masks.decide(attention_, kernel().op());
    }

    graph::OpGraph graph_;
    std::vector<TensorId> operands_;
    std::map<TensorId, at::Tensor> values_;
    graph::OpId attention_;
};

TEST(CausalMask, IsThatAndNothingElse) {
    EXPECT_TRUE(is_causal(lower()));
    EXPECT_TRUE(is_causal(lower().expand({2, 1, kLength, kLength})));
    const at::Tensor hidden = lower().logical_not();
    const at::Tensor zeros = at::zeros({kLength, kLength});
    for (const double number : {-1e4, -3.4e38, -std::numeric_limits<double>::infinity()}) {
        EXPECT_TRUE(is_causal(zeros.masked_fill(hidden, number))) << number;
    }
    EXPECT_FALSE(is_causal(zeros.masked_fill(hidden, -100.0)));
    EXPECT_FALSE(is_causal(zeros));
    EXPECT_FALSE(is_causal(lower().tril(-1)));
    EXPECT_FALSE(is_causal(hidden));
    EXPECT_FALSE(is_causal(lower().narrow(0, 1, kLength - 1)));
    at::Tensor changed = lower().repeat({2, 1, 1});
    changed[1][4][2] = false;
    EXPECT_FALSE(is_causal(changed));
    EXPECT_FALSE(is_causal(at::zeros({0, 0})));
    EXPECT_FALSE(is_causal(at::ones({3}, at::kBool)));
}

TEST_F(CausalMasksOf, WhatConstantsDecideIsKnown) {
    const at::Tensor positions = at::arange(kLength, at::kFloat);
    const TensorId rows = constant("rows", positions.unsqueeze(1));
    const TensorId columns = constant("columns", positions.unsqueeze(0));
    const TensorId sum = add_compute(graph_, "sum", "Add", {rows, columns}, kSquare);
    const at::Tensor value = decided_value(graph_, sum, values(), kMostHeld);
    ASSERT_TRUE(value.defined());
    EXPECT_TRUE(at::equal(value, positions.unsqueeze(1) + positions));
    EXPECT_FALSE(decided_value(graph_, sum, values(), kLength).defined());

    const TensorId input = add_source(graph_, "x", TensorRole::input, {kLength});
    const TensorId more = add_compute(graph_, "more", "Add", {sum, input}, kSquare);
    EXPECT_FALSE(decided_value(graph_, more, values(), kMostHeld).defined());
    const TensorId drawn = add_compute(graph_, "drawn", "RandomNormalLike", {rows}, {kLength, 1});
    const TensorId noise = add_compute(graph_, "noise", "Add", {drawn, columns}, kSquare);
    EXPECT_FALSE(decided_value(graph_, noise, values(), kMostHeld).defined());
}

TEST_F(CausalMasksOf, AttentionWithoutAMaskIsTheSame) {
    const TensorId bias =
        constant("bias", at::zeros({kLength, kLength}).masked_fill(lower().logical_not(), -1e9));
    const TensorId half = constant("half", at::full({1}, 0.5));
    attend(add_compute(graph_, "mask", "Mul", {bias, half}, kSquare));
    ASSERT_TRUE(is_replaced());

    at::manual_seed(1);
    Tensors operands;
    for (std::size_t i = 0; i < operands_.size(); ++i) operands.push_back(at::randn(kByHead));
    operands.push_back(values_.at(bias) * 0.5);
    const at::Tensor expected = kernel().forward(operands)[0];
    PartKernel causal = kernel();
    causal.attend_causally();
    operands.back() = at::Tensor();
    EXPECT_TRUE(at::allclose(causal.forward(operands)[0], expected, 1e-5, 1e-6));
}

TEST_F(CausalMasksOf, AWindowNeedsItsMask) {
    graph::Attributes attributes;
    attributes.set("left_window_size", std::int64_t{2});
    attend(constant("mask", lower(), graph::DType::boolean), attributes);
    EXPECT_FALSE(is_replaced());
}

TEST_F(CausalMasksOf, ScoresThatAreShownHaveTheMasksNumbers) {
    const TensorId mask = constant("mask", lower(), graph::DType::boolean);
    attend(mask);
    EXPECT_TRUE(is_replaced());
    graph::Op op = graph_.op(attention_);
    op.name = "shows";
    graph::Tensor result = graph_.tensor(op.outputs[0]);
    op.outputs.clear();
    for (const char* name : {"y2", "key", "value", "scores"}) {
        result.name = name;
        result.shape =
            std::string(name) == "scores" ? graph::Shape{2, 3, kLength, kLength} : kByHead;
        const bool is_left_out = std::string(name) == "key" || std::string(name) == "value";
        op.outputs.push_back(is_left_out ? TensorId{} : graph_.add_tensor(result));
    }
    attention_ = graph_.add_op(std::move(op));
    EXPECT_FALSE(is_replaced());
}

TEST_F(CausalMasksOf, OneRowForAllQueriesIsNone) {
    attend(constant("mask", at::ones({1, 1}, at::kBool), graph::DType::boolean));
    EXPECT_FALSE(is_replaced());
}

TEST_F(CausalMasksOf, AnInputIsNone) {
    attend(add_source(graph_, "mask", TensorRole::input, kSquare));
    EXPECT_FALSE(is_replaced());
}

}  // namespace
}  // namespace partita::runtime
