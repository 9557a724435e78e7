// SPDX-License-Identifier: Apache-2.0
//
// Attention in place of products computes what they compute, and so does attention to blocks of keys;
// and autograd through either.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "graph/fusion/attention.h"
#include "graph/fusion/block_attention.h"
#include "runtime/kernels/run_graph.h"
#include "tests/plan/network_builder.h"

namespace partita::runtime {
namespace {

using graph::OpGraph;
using graph::TensorId;
using plan::add_compute;

/// Constants are called what they are.
const SourceValue kConstants = [](const graph::Tensor& tensor) {
    return at::scalar_tensor(std::stod(tensor.name));
};
const graph::Shape kSplit = {2, 5, 4, 8};
const graph::Shape kHeads = {2, 4, 5, 8};
const graph::Shape kScores = {2, 4, 5, 5};

struct Form {
    bool divides = false;      ///< by the scale, instead of a product
    bool scales_keys = false;  ///< too, once they are turned
    bool masks = false;
    bool masks_again = false;  ///< with another mask
    bool fills = false;        ///< where a mask says so
    bool guards = false;
    bool drops = false;  ///< of the softmax's result
};

OpGraph attention(const Form& form) {
    OpGraph graph;
    const auto source = [&](const char* name, const graph::Shape& shape) {
        return plan::add_source(graph, name, graph::TensorRole::input, shape);
    };
    const auto number = [&](const char* name) {
        return plan::add_source(graph, name, graph::TensorRole::constant, {});
    };
    const TensorId zero = number("0");
    const TensorId lowest = number("-10000");
    const auto turned = [&](const char* name, TensorId x, std::vector<std::int64_t> perm,
                            const graph::Shape& shape) {
        return add_compute(graph, name, "Transpose", {x}, shape,
                           plan::attribute("perm", std::move(perm)));
    };
    const TensorId q = turned("query", source("q", kSplit), {0, 2, 1, 3}, kHeads);
    TensorId k = turned("key", source("k", kSplit), {0, 2, 3, 1}, {2, 4, 8, 5});
    const TensorId v = turned("value", source("v", kSplit), {0, 2, 1, 3}, kHeads);
    const TensorId scale = source("scale", {});
    if (form.scales_keys) k = add_compute(graph, "keys", "Mul", {k, scale}, {2, 4, 8, 5});
    TensorId x = add_compute(graph, "scores", "MatMul", {q, k}, kScores);
    x = add_compute(graph, "scaled", form.divides ? "Div" : "Mul", {x, scale}, kScores);
    if (form.masks) x = add_compute(graph, "masked", "Add", {source("mask", {5, 5}), x}, kScores);
    if (form.masks_again) {
        x = add_compute(graph, "masked again", "Add", {x, source("more", {1, 5})}, kScores);
    }
    if (form.fills) {
        const TensorId hidden =
            add_compute(graph, "hidden", "Less", {source("keys", {5, 5}), zero}, {5, 5});
        graph.tensor(hidden).dtype = graph::DType::boolean;
        x = add_compute(graph, "filled", "Where", {hidden, lowest, x}, kScores);
    }
    x = add_compute(graph, "softmax", "Softmax", {x}, kScores,
                    plan::attribute("axis", std::int64_t{-1}));
    if (form.guards) {
        const TensorId is_nan = add_compute(graph, "nan", "IsNaN", {x}, kScores);
        graph.tensor(is_nan).dtype = graph::DType::boolean;
        x = add_compute(graph, "where", "Where", {is_nan, zero, x}, kScores);
    }
    if (form.drops) {
        const TensorId trains = number("1");
        graph.tensor(trains).dtype = graph::DType::boolean;
        x = add_compute(graph, "dropout", "Dropout", {x, number("0.3"), trains}, kScores);
    }
    graph.add_output("y", add_compute(graph, "context", "MatMul", {x, v}, kHeads));
    return graph;
}

/// Results of two graphs with one output, and the gradients of their inputs.
void expect_equal(const OpGraph& graph, const OpGraph& other, const Tensors& inputs) {
    const at::AutoGradMode grad(true);
    Tensors wanted;
    for (const at::Tensor& input : inputs) {
        if (input.requires_grad()) wanted.push_back(input);
    }
    at::Tensor given;
    const auto run = [&](const OpGraph& each) {
        Tensors all = {run_graph(each, inputs, kConstants)[0]};
        if (!given.defined()) given = at::randn_like(all[0]);
        Tensors gradients =
            torch::autograd::grad(all, wanted, {given}, /*retain_graph=*/std::nullopt,
                                  /*create_graph=*/false, /*allow_unused=*/true);
        std::ranges::move(gradients, std::back_inserter(all));
        return all;
    };
    const Tensors expected = run(other);
    const Tensors found = run(graph);
    for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(found[i].defined(), expected[i].defined()) << i;
        if (!found[i].defined()) continue;
        EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-4, 1e-5)) << i;
    }
}

class FusedAttentionOf : public testing::TestWithParam<Form> {};

TEST_P(FusedAttentionOf, ComputesWhatProductsCompute) {
    at::manual_seed(1);
    const OpGraph plain = attention(GetParam());
    const graph::FusedAttention fused =
        graph::with_fused_attention(plain, [&](TensorId t) -> std::optional<double> {
            if (plain.tensor(t).role != graph::TensorRole::constant) return std::nullopt;
            return std::stod(plain.tensor(t).name);
        });
    ASSERT_EQ(fused.count, 1);
    Tensors inputs;
    for (const graph::Op& op : plain.ops()) {
        if (op.kind != graph::OpKind::input) continue;
        const std::string& name = plain.tensor(op.outputs[0]).name;
        at::Tensor value = at::randn(plain.tensor(op.outputs[0]).shape);
        if (name == "scale") value = at::scalar_tensor(0.7);
        if (name == "keys") value = at::tril(at::ones({5, 5})) - 0.5;  // some for every query
        inputs.push_back(value.requires_grad_(true));
    }
    expect_equal(fused.graph, plain, inputs);
}

INSTANTIATE_TEST_SUITE_P(Forms, FusedAttentionOf,
                         testing::Values(Form{}, Form{.divides = true}, Form{.scales_keys = true},
                                         Form{.masks = true}, Form{.guards = true},
                                         Form{.masks = true, .masks_again = true},
                                         Form{.divides = true, .fills = true},
                                         Form{.divides = true, .masks = true, .guards = true},
                                         Form{.drops = true}, Form{.masks = true, .drops = true},
                                         Form{.fills = true, .guards = true, .drops = true}));

graph::Attributes dropout(double ratio) {
    graph::Attributes attributes;
    attributes.set("dropout_ratio", ratio);
    attributes.set("dropout_name", std::string("dropout"));
    return attributes;
}

/// With values that are one, and zeros for queries, an element is what is kept of the keys.
TEST(FusedAttention, DropsItsShareAndKeepsTheSum) {
    OpGraph graph;
    constexpr std::int64_t kKeys = 1000;
    const auto source = [&](const char* name, const graph::Shape& shape) {
        return plan::add_source(graph, name, graph::TensorRole::input, shape);
    };
    const std::vector<TensorId> operands = {
        source("q", {2, 3, 4, 8}), source("k", {2, 3, kKeys, 8}), source("v", {2, 3, kKeys, 1})};
    graph.add_output("y",
                     add_compute(graph, "op", "Attention", operands, {2, 3, 4, 1}, dropout(0.4)));
    const Tensors inputs = {at::zeros({2, 3, 4, 8}), at::zeros({2, 3, kKeys, 8}),
                            at::ones({2, 3, kKeys, 1})};
    const at::Tensor kept = run_graph(graph, inputs, kConstants)[0];
    EXPECT_NEAR(kept.mean().item<double>(), 1.0, 0.02);
    EXPECT_GT(kept.std().item<double>(), 0.01);  // rows are not dropped alike
    EXPECT_LT(kept.std().item<double>(), 0.05);
}

struct BlockForm {
    std::vector<graph::Shape> operands;  ///< queries, keys, values, mask
    graph::Shape result;
    graph::Attributes attributes;
    bool hides = false;  ///< the mask is one of booleans: the first query sees nothing
};

graph::Attributes packed_heads() {
    graph::Attributes attributes;
    attributes.set("q_num_heads", std::int64_t{6});
    attributes.set("kv_num_heads", std::int64_t{3});
    attributes.set("is_causal", std::int64_t{1});
    attributes.set("scale", 0.3);
    return attributes;
}

class BlockAttentionOf : public testing::TestWithParam<BlockForm> {};

TEST_P(BlockAttentionOf, ComputesWhatAttentionComputes) {
    at::manual_seed(1);
    const BlockForm& form = GetParam();
    OpGraph whole;
    std::vector<TensorId> operands;
    Tensors inputs;
    for (const graph::Shape& shape : form.operands) {
        const std::string name = "x" + std::to_string(operands.size());
        operands.push_back(plan::add_source(whole, name, graph::TensorRole::input, shape));
        const bool is_condition = form.hides && operands.size() == 4;
        if (is_condition) whole.tensor(operands.back()).dtype = graph::DType::boolean;
        inputs.push_back(is_condition ? at::tril(at::ones(shape), -1).to(at::kBool)
                                      : at::randn(shape).requires_grad_(true));
    }
    whole.add_output("y",
                     add_compute(whole, "op", "Attention", operands, form.result, form.attributes));
    for (const int blocks : {2, 3, 6}) {
        const graph::BlockedAttention blocked = graph::with_block_attention(whole, blocks);
        ASSERT_EQ(blocked.count, 1);
        expect_equal(blocked.graph, whole, inputs);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, BlockAttentionOf,
    testing::Values(
        BlockForm{{{2, 6, 6, 4}, {2, 3, 12, 4}, {2, 3, 12, 5}}, {2, 6, 6, 5}, {}},
        BlockForm{{{2, 6, 6, 4}, {2, 3, 12, 4}, {2, 3, 12, 5}},
                  {2, 6, 6, 5},
                  plan::attribute("is_causal", std::int64_t{1})},
        BlockForm{{{2, 6, 24}, {2, 6, 12}, {2, 6, 15}}, {2, 6, 30}, packed_heads()},
        BlockForm{{{2, 6, 6, 4}, {2, 3, 12, 4}, {2, 3, 12, 5}, {2, 1, 6, 12}}, {2, 6, 6, 5}, {}},
        BlockForm{{{2, 6, 6, 4}, {2, 3, 12, 4}, {2, 3, 12, 5}, {2, 1, 1, 12}}, {2, 6, 6, 5}, {}},
        BlockForm{{{2, 6, 6, 4}, {2, 3, 6, 4}, {2, 3, 6, 5}, {6, 6}},
                  {2, 6, 6, 5},
                  {},
                  /*hides=*/true},
        BlockForm{{{2, 6, 6, 4}, {2, 3, 12, 4}, {2, 3, 12, 5}}, {2, 6, 6, 5}, dropout(0.3)}));

}  // namespace
}  // namespace partita::runtime
