// SPDX-License-Identifier: Apache-2.0
#include "graph/fusion/fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/op_table.h"
#include "tests/graph/operators/examples.h"
#include "tests/plan/network_builder.h"

namespace partita::graph {
namespace {

using plan::add_compute;
using plan::add_source;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Shape kShape = {2, 8, 4};

/// gate, up [2 8 4] -> silu(gate) * up, as exporters write it.
class Gated : public ::testing::Test {
protected:
    Gated() {
        gate_ = add_source(graph_, "gate", TensorRole::input, kShape);
        up_ = add_source(graph_, "up", TensorRole::input, kShape);
    }

    TensorId op(const std::string& name, const std::string& type, std::vector<TensorId> operands) {
        return add_compute(graph_, name, type, std::move(operands), kShape, {}, "mlp");
    }
    TensorId swiglu() {
        const TensorId sigmoid = op("sigmoid", "Sigmoid", {gate_});
        const TensorId silu = op("silu", "Mul", {sigmoid, gate_});
        return op("mul", "Mul", {up_, silu});
    }
    [[nodiscard]] std::vector<std::string> types(const std::vector<std::string>& kernels) const {
        std::vector<std::string> types;
        const Fused result = fused(graph_, kernels, "model.onnx", {});
        for (const Op& op : result.graph.ops()) {
            if (op.kind == OpKind::compute) types.push_back(op.type);
        }
        return types;
    }
    [[nodiscard]] std::string refusal(const std::string& kernel) const {
        try {
            static_cast<void>(fused(graph_, {kernel}, "model.onnx", {}));
        } catch (const UsageError& error) {
            return error.what();
        }
        return "fused";
    }

    OpGraph graph_;
    TensorId gate_;
    TensorId up_;
};

TEST_F(Gated, OpsOfAnExpressionBecomeOneKernel) {
    graph_.add_output("y", swiglu());
    const Fused result = fused(graph_, {"swiglu"}, "model.onnx", {});
    EXPECT_THAT(result.counts, ElementsAre(1));
    check(result.graph);
    const OpId id = *result.graph.find_op("mul");
    const Op& kernel = result.graph.op(id);
    EXPECT_EQ(kernel.type, "Pointwise");
    EXPECT_EQ(kernel.domain, "partita");
    EXPECT_EQ(kernel.block, "mlp");
    ASSERT_EQ(kernel.inputs.size(), 2u);
    EXPECT_EQ(result.graph.tensor(kernel.inputs[0]).name, "gate");
    EXPECT_EQ(result.graph.tensor(kernel.inputs[1]).name, "up");
    EXPECT_EQ(result.graph.op_count(), 4u);  // gate, up, the kernel, y
    EXPECT_EQ(result.graph.tensor_count(), 3u);
    const OpRule rule = rule_of(result.graph, id);
    EXPECT_EQ(testing::complaint_about(result.graph, id, rule), "");
    EXPECT_EQ(testing::text_of(rule), "d0 d1 d2, d0 d1 d2 -> d0 d1 d2; saves 0 1; flops 192");
}

TEST_F(Gated, EqualKernelsHaveEqualBodies) {
    const TensorId first = swiglu();
    const TensorId sigmoid = op("sigmoid2", "Sigmoid", {first});
    graph_.add_output("y", op("mul2", "Mul", {op("silu2", "Mul", {first, sigmoid}), up_}));
    const OpGraph with = fused(graph_, {"swiglu"}, "model.onnx", {}).graph;
    const auto body = [&](const char* name) {
        return digest(*with.op(*with.find_op(name)).bodies[0].graph);
    };
    EXPECT_NE(body("mul"), body("mul2"));  // their Muls are the other way round
    const OpGraph plain = fused(graph_, {"Sigmoid(x)"}, "model.onnx", {}).graph;
    EXPECT_EQ(digest(*plain.op(*plain.find_op("sigmoid")).bodies[0].graph),
              digest(*plain.op(*plain.find_op("sigmoid2")).bodies[0].graph));
}

TEST_F(Gated, TheFirstKernelThatFitsTakesTheOps) {
    graph_.add_output("y", swiglu());
    EXPECT_THAT(types({"swiglu"}), ElementsAre("Pointwise"));
    EXPECT_THAT(types({"silu", "Mul(a, b)"}), ElementsAre("Pointwise", "Pointwise"));
    EXPECT_THAT(types({"silu"}), ElementsAre("Pointwise", "Mul"));
    EXPECT_THAT(
        [&] {
            static_cast<void>(types({"swiglu", "silu"}));
        },
        ::testing::ThrowsMessage<UsageError>(HasSubstr("has no such ops")));
}

TEST_F(Gated, TransposesBecomeViewsThatMoveNothing) {
    Attributes swap;
    swap.set("perm", std::vector<std::int64_t>{0, 2, 1});
    const Tensor& up = graph_.tensor(up_);
    graph_.add_output("y", add_compute(graph_, "turned", "Transpose", {up_},
                                       {up.shape[0], up.shape[2], up.shape[1]}, swap));
    graph_.add_output("z", swiglu());
    const Fused result = fused(graph_, {"transposes", "swiglu"}, "model.onnx", {});
    EXPECT_THAT(result.counts, ElementsAre(1, 1));
    check(result.graph);
    const OpId id = *result.graph.find_op("turned");
    EXPECT_EQ(result.graph.op(id).domain, "partita");
    EXPECT_TRUE(rule_of(result.graph, id).alias);
    EXPECT_FALSE(rule_of(graph_, *graph_.find_op("turned")).alias);
    EXPECT_NE(digest(result.graph), digest(fused(graph_, {"swiglu"}, "model.onnx", {}).graph));
}

TEST_F(Gated, TransposesAreRefusedWhereThereAreNone) {
    graph_.add_output("y", swiglu());
    EXPECT_THAT(refusal("transposes"), HasSubstr("the model has no such ops"));
}

// Somebody else reads what is inside.
TEST_F(Gated, WhatOthersReadIsNotFused) {
    const TensorId y = swiglu();
    graph_.add_output("inner", graph_.op(*graph_.find_op("silu")).outputs[0]);
    graph_.add_output("y", y);
    EXPECT_THAT(refusal("swiglu"), HasSubstr("the model has no such ops"));
    EXPECT_THAT(types({"silu"}), ElementsAre("Pointwise", "Mul"));
}

TEST_F(Gated, ALetterIsTheSameTensorEverywhere) {
    const TensorId sigmoid = op("sigmoid", "Sigmoid", {up_});
    graph_.add_output("y", op("mul", "Mul", {gate_, sigmoid}));
    EXPECT_THAT(refusal("silu"), HasSubstr("the model has no such ops"));
    EXPECT_EQ(refusal("Mul(x, Sigmoid(y))"), "fused");
    EXPECT_EQ(refusal(" Mul ( x,Sigmoid( y ) ) "), "fused");
}

TEST_F(Gated, KernelsThatAreNoneAreRefused) {
    graph_.add_output("y", swiglu());
    EXPECT_THAT(refusal("foo"), HasSubstr("model.onnx: --fuse foo: 'foo' is neither a letter nor"));
    EXPECT_THAT(refusal("foo"),
                HasSubstr("Give one of silu, swiglu, weighted-swiglu, gelu, gelu-tanh, bias-gelu, "
                          "linear, transposes, unaligned-products, or"));
    EXPECT_THAT(refusal(""), HasSubstr("an operator or a letter is missing"));
    EXPECT_THAT(refusal("x"), HasSubstr("it computes nothing"));
    EXPECT_THAT(refusal("Mul(a"), HasSubstr("')' is missing"));
    EXPECT_THAT(refusal("Mul(a, b) c"), HasSubstr("'c' is too much"));
    EXPECT_THAT(refusal("MatMul(a, b)"), HasSubstr("'MatMul' is no pointwise operator of ONNX"));
    EXPECT_THAT(refusal("Bernoulli(a)"), HasSubstr("'Bernoulli' is no pointwise operator"));
    EXPECT_THAT(refusal("Mul(A, b)"), HasSubstr("'A' is neither"));
    std::string deep = "x";
    for (int i = 0; i < 13; ++i) deep = "Tanh(" + deep + ")";
    EXPECT_THAT(refusal(deep), HasSubstr("more than 12 operators"));
}

// Before operator set 7 operands were aligned by attributes.
TEST_F(Gated, OpsThatAreNotKnownWellAreNotFused) {
    graph_.add_output("y", swiglu());
    graph_.op(*graph_.find_op("silu")).opset = 6;
    graph_.op(*graph_.find_op("silu")).attributes.set("broadcast", std::int64_t{1});
    EXPECT_EQ(refusal("Sigmoid(x)"), "fused");
    EXPECT_THAT(refusal("swiglu"), HasSubstr("the model has no such ops"));
}

// Sums read nothing for their backward; what an activation reads comes from all operands of a sum.
TEST_F(Gated, WhatTheBackwardReadsIsKept) {
    const TensorId bias = add_source(graph_, "bias", TensorRole::parameter, {4});
    const TensorId sum = op("add", "Add", {gate_, bias});
    const TensorId gelu = op("gelu", "Gelu", {sum});
    graph_.add_output("y", op("residual", "Add", {gelu, up_}));
    const auto saved = [&](const char* kernel) {
        const OpGraph with = fused(graph_, {kernel}, "model.onnx", {}).graph;
        for (std::size_t i = 0; i < with.op_count(); ++i) {
            if (with.ops()[i].type == "Pointwise") return rule_of(with, OpId(i)).saves_operands;
        }
        return ~std::uint64_t{0};
    };
    EXPECT_EQ(saved("Add(x, b)"), 0u);
    EXPECT_EQ(saved("bias-gelu"), 0b11u);
    EXPECT_EQ(saved("Add(Gelu(Add(a, b)), r)"), 0b011u);
}

// A scale that is not trained: of the scores nothing is kept. One that is: they are.
TEST_F(Gated, WhatOnlyAConstantsGradientWouldReadIsNotKept) {
    for (const TensorRole role : {TensorRole::constant, TensorRole::parameter}) {
        OpGraph graph;
        const TensorId scores = add_source(graph, "scores", TensorRole::input, kShape);
        const TensorId scale = add_source(graph, "scale", role, {});
        const TensorId mask = add_source(graph, "mask", TensorRole::constant, {8, 4});
        const TensorId scaled = add_compute(graph, "scaled", "Mul", {scores, scale}, kShape);
        graph.add_output("y", add_compute(graph, "masked", "Add", {scaled, mask}, kShape));
        const OpGraph with = fused(graph, {"Add(Mul(s, c), m)"}, "model.onnx", {}).graph;
        const OpRule rule = rule_of(with, *with.find_op("masked"));
        EXPECT_TRUE(rule.saves_operand(0));   // c
        EXPECT_FALSE(rule.saves_operand(1));  // m
        EXPECT_EQ(rule.saves_operand(2), role == TensorRole::parameter);
    }
}

// 16 bits: 50 columns are 100 bytes, 4 less than a multiple of 8; a bias has no rows.
TEST(UnalignedProducts, SayAtWhichBytesTheirRowsBegin) {
    const auto row_bytes = [](DType dtype, Shape a, Shape b, Shape result) {
        OpGraph graph;
        const TensorId x = add_source(graph, "x", TensorRole::input, std::move(a), dtype);
        const TensorId w = add_source(graph, "w", TensorRole::parameter, std::move(b), dtype);
        const TensorId y = add_compute(graph, "y", "MatMul", {x, w}, std::move(result));
        graph.tensor(y).dtype = dtype;
        graph.add_output("out", add_compute(graph, "z", "Relu", {y}, graph.tensor(y).shape));
        const Fused result_of =
            fused(graph, {"unaligned-products"}, "model.onnx", {}, MissingKernel::leave_out);
        const int bytes = result_of.graph.op(*result_of.graph.find_op("y")).row_bytes;
        EXPECT_EQ(result_of.counts[0], bytes == kWideRow ? 0 : 1);
        EXPECT_EQ(digest(graph) == digest(result_of.graph), bytes == kWideRow);
        return bytes;
    };
    EXPECT_EQ(row_bytes(DType::bfloat16, {3, 8}, {8, 16}, {3, 16}), kWideRow);
    EXPECT_EQ(row_bytes(DType::bfloat16, {3, 8}, {8, 50}, {3, 50}), 4);
    EXPECT_EQ(row_bytes(DType::bfloat16, {3, 9}, {9, 16}, {3, 16}), 2);
    EXPECT_EQ(row_bytes(DType::float32, {3, 8}, {8, 50}, {3, 50}), 8);
    EXPECT_EQ(row_bytes(DType::float32, {3, 8}, {8, 4}, {3, 4}), kWideRow);
}

/// x [2 3 8] times w, to which `bias` is added: the op that computes the sum then.
Op sum_with_linear(Shape weight, Shape bias, bool bias_first = false,
                   bool product_is_read = false) {
    OpGraph graph;
    const TensorId x = add_source(graph, "x", TensorRole::input, {2, 3, 8});
    const TensorId w = add_source(graph, "w", TensorRole::parameter, weight);
    const TensorId b = add_source(graph, "b", TensorRole::parameter, std::move(bias));
    const TensorId product = add_compute(graph, "product", "MatMul", {x, w}, {2, 3, weight.back()});
    const std::vector<TensorId> terms =
        bias_first ? std::vector{b, product} : std::vector{product, b};
    graph.add_output("y", add_compute(graph, "sum", "Add", terms, {2, 3, weight.back()}, {}, "h"));
    if (product_is_read) graph.add_output("inner", product);
    const Fused result = fused(graph, {"linear"}, "model.onnx", {}, MissingKernel::leave_out);
    check(result.graph);
    const Op& op = result.graph.op(*result.graph.find_op("sum"));
    EXPECT_EQ(result.counts[0], op.type == kLinear ? 1 : 0);
    EXPECT_EQ(result.graph.find_op("product").has_value(), op.type != kLinear);
    return op;
}

TEST(LinearKernel, IsAProductWithOneMatrixAndItsBias) {
    for (const bool bias_first : {false, true}) {
        const Op op = sum_with_linear({8, 4}, {4}, bias_first);
        EXPECT_EQ(op.type, "Linear");
        EXPECT_EQ(op.domain, "partita");
        EXPECT_EQ(op.block, "h");
        EXPECT_EQ(op.inputs.size(), 3u);
        EXPECT_TRUE(is_product(op));
    }
}

TEST(LinearKernel, IsNothingElse) {
    EXPECT_EQ(sum_with_linear({8, 4}, {1}).type, "Add");
    EXPECT_EQ(sum_with_linear({8, 4}, {}).type, "Add");
    EXPECT_EQ(sum_with_linear({8, 4}, {3, 4}).type, "Add");
    EXPECT_EQ(sum_with_linear({2, 8, 4}, {4}).type, "Add");
    EXPECT_EQ(sum_with_linear({8, 4}, {4}, false, true).type, "Add");
}

// What its product would be, it is.
TEST(LinearKernel, IsAnUnalignedProductToo) {
    OpGraph graph;
    const TensorId x = add_source(graph, "x", TensorRole::input, {3, 8});
    const TensorId w = add_source(graph, "w", TensorRole::parameter, {8, 50});
    const TensorId b = add_source(graph, "b", TensorRole::parameter, {50});
    const TensorId product = add_compute(graph, "product", "MatMul", {x, w}, {3, 50});
    graph.add_output("y", add_compute(graph, "sum", "Add", {product, b}, {3, 50}));
    const Fused result = fused(graph, {"linear", "unaligned-products"}, "model.onnx", {});
    EXPECT_THAT(result.counts, ElementsAre(1, 1));
    EXPECT_EQ(result.graph.op(*result.graph.find_op("sum")).row_bytes, 8);
}

TEST(NamedKernels, AreExpressionsOfTheirOwn) {
    for (const NamedKernel& kernel : named_kernels()) {
        OpGraph graph;
        add_source(graph, "x", TensorRole::input, {2});
        EXPECT_THAT([&] { static_cast<void>(fused(graph, {std::string(kernel.name)}, "m", {})); },
                    ::testing::ThrowsMessage<UsageError>(
                        HasSubstr("has no such ops (" + std::string(kernel.expression) + ")")));
        EXPECT_NE(kernel.source, "");
    }
}

}  // namespace
}  // namespace partita::graph
