// SPDX-License-Identifier: Apache-2.0
//
// Every backward of our own against autograd of its forward, on random float64 operands. It is
// given what the op's row says is saved, and undefined tensors for the rest.
#include <array>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/part_kernel.h"
#include "runtime/kernels/tensors.h"
#include "tests/runtime/kernel_parts_test.h"

namespace partita::runtime {
namespace {

using graph::AttributeValue;
using graph::OpId;
using graph::Shape;
using graph::TensorId;
using Integers = std::vector<std::int64_t>;

/// One op. Operands are random numbers > 0, or < 0 too, but for `integers`, the last one if there
/// are any.
struct BackwardExample {
    std::string type;
    std::vector<Shape> operands;
    std::vector<Shape> results;
    std::vector<std::pair<std::string, AttributeValue>> attributes = {};
    Integers integers = {};
    int opset = 22;
    bool is_positive = false;
};

std::int64_t one() {
    return 1;
}

std::vector<BackwardExample> pointwise_examples() {
    return {
        {"Add", {{2, 3, 4}, {3, 1}}, {{2, 3, 4}}},
        {"Add", {{4}, {2, 3, 4}}, {{2, 3, 4}}},
        {"Add", {{2, 3, 4}, {3}}, {{2, 3, 4}}, {{"axis", one()}, {"broadcast", one()}}, {}, 6},
        {"Sub", {{2, 3, 4}, {3, 1}}, {{2, 3, 4}}},
        {"Mul", {{2, 1, 4}, {3, 4}}, {{2, 3, 4}}},
        {"Mul", {{}, {3, 4}}, {{3, 4}}},
        {"Div", {{2, 1, 4}, {3, 4}}, {{2, 3, 4}}},
        {"Pow", {{2, 3}, {}}, {{2, 3}}, {}, {}, 22, true},
        {"Pow", {{2, 3}, {3}}, {{2, 3}}, {}, {}, 22, true},
        {"Neg", {{2, 3}}, {{2, 3}}},
        {"Exp", {{2, 3}}, {{2, 3}}},
        {"Sqrt", {{2, 3}}, {{2, 3}}, {}, {}, 22, true},
        {"Reciprocal", {{2, 3}}, {{2, 3}}},
        {"Relu", {{2, 3}}, {{2, 3}}},
        {"Sigmoid", {{2, 3}}, {{2, 3}}},
        {"Tanh", {{2, 3}}, {{2, 3}}},
        {"Gelu", {{2, 3}}, {{2, 3}}},
        {"Gelu", {{2, 3}}, {{2, 3}}, {{"approximate", std::string("tanh")}}},
        {"Identity", {{2, 3}}, {{2, 3}}},
        {"Cast", {{2, 3}}, {{2, 3}}, {{"to", std::int64_t{11}}}},
        {"CastLike", {{2, 3}, {1}}, {{2, 3}}},
        {"Sum", {{2, 3}, {3}, {2, 1}}, {{2, 3}}},
        {"Mean", {{2, 3}, {3}, {2, 1}}, {{2, 3}}},
        {"Dropout", {{2, 3}}, {{2, 3}}},
        {"Dropout", {{20, 30}}, {{20, 30}}, {{"ratio", 0.25}}, {}, 6},
    };
}

std::vector<BackwardExample> reduction_examples() {
    std::vector<BackwardExample> examples = {
        {"Softmax", {{2, 3, 4}}, {{2, 3, 4}}, {{"axis", one()}}},
        {"Softmax", {{2, 3, 4}}, {{2, 3, 4}}, {{"axis", one()}}, {}, 11},
        {"LogSoftmax", {{2, 3, 4}}, {{2, 3, 4}}, {{"axis", std::int64_t{-1}}}},
        {"LogSoftmax", {{2, 3, 4}}, {{2, 3, 4}}, {{"axis", one()}}, {}, 11},
    };
    for (const std::string type :
         {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceLogSumExp"}) {
        const AttributeValue none = std::int64_t{0};
        examples.push_back({type, {{2, 3, 4}, {2}}, {{1, 3, 1}}, {}, {0, -1}});
        examples.push_back({type, {{3, 3, 3}, {1}}, {{3, 3}}, {{"keepdims", none}}, {1}});
        examples.push_back({type, {{2, 3}}, {{}}, {{"keepdims", none}}});
        examples.push_back({type, {{2, 3}}, {{2, 1}}, {{"axes", Integers{1}}}, {}, 11});
    }
    return examples;
}

std::vector<BackwardExample> matrix_examples() {
    const AttributeValue yes = one();
    return {
        {"MatMul", {{2, 3}, {3, 4}}, {{2, 4}}},
        {"MatMul", {{5, 2, 3}, {3, 4}}, {{5, 2, 4}}},
        {"MatMul", {{5, 1, 2, 3}, {6, 3, 4}}, {{5, 6, 2, 4}}},
        {"MatMul", {{2, 3}, {5, 3, 4}}, {{5, 2, 4}}},
        {"MatMul", {{3}, {5, 3, 4}}, {{5, 4}}},
        {"MatMul", {{5, 2, 3}, {3}}, {{5, 2}}},
        {"MatMul", {{3}, {3}}, {{}}},
        {"MatMul", {{3}, {3, 4}}, {{4}}},
        {"Gemm", {{2, 3}, {3, 4}, {4}}, {{2, 4}}},
        {"Gemm", {{3, 2}, {3, 4}, {2, 1}}, {{2, 4}}, {{"transA", yes}, {"alpha", 0.5}}},
        {"Gemm", {{2, 3}, {4, 3}, {}}, {{2, 4}}, {{"transB", yes}, {"beta", 0.25}}},
        {"Gemm", {{3, 2}, {4, 3}}, {{2, 4}}, {{"transA", yes}, {"transB", yes}}},
    };
}

std::vector<BackwardExample> window_examples() {
    const AttributeValue two_by_two = Integers{2, 2};
    const AttributeValue strides = Integers{2, 1};
    const AttributeValue uneven = Integers{0, 1, 1, 0};
    return {
        {"Conv",
         {{2, 4, 5, 6}, {6, 2, 3, 3}, {6}},
         {{2, 6, 5, 6}},
         {{"group", std::int64_t{2}}, {"pads", Integers{1, 1, 1, 1}}}},
        {"Conv",
         {{2, 3, 5, 6}, {4, 3, 2, 2}},
         {{2, 4, 3, 6}},
         {{"pads", uneven}, {"strides", strides}}},
        {"Conv", {{2, 3, 9}, {4, 3, 3}, {4}}, {{2, 4, 5}}, {{"dilations", Integers{2}}}},
        {"Conv", {{1, 2, 4, 4, 4}, {3, 2, 2, 2, 2}, {3}}, {{1, 3, 3, 3, 3}}},
        {"MaxPool",
         {{2, 3, 4, 6}},
         {{2, 3, 2, 5}},
         {{"kernel_shape", two_by_two}, {"strides", strides}}},
        {"MaxPool",
         {{2, 3, 5, 6}},
         {{2, 3, 3, 6}},
         {{"kernel_shape", two_by_two}, {"strides", strides}, {"pads", uneven}}},
        {"AveragePool",
         {{2, 3, 4, 6}},
         {{2, 3, 2, 5}},
         {{"kernel_shape", two_by_two}, {"strides", strides}}},
        {"AveragePool",
         {{2, 3, 5, 6}},
         {{2, 3, 3, 6}},
         {{"kernel_shape", two_by_two}, {"strides", strides}, {"pads", uneven}}},
        {"GlobalAveragePool", {{2, 3, 5, 6}}, {{2, 3, 1, 1}}},
        {"GlobalMaxPool", {{2, 3, 5, 6}}, {{2, 3, 1, 1}}},
    };
}

std::vector<BackwardExample> other_examples() {
    const Shape c = {3};
    return {
        {"LayerNormalization", {{2, 3, 4}, {4}, {4}}, {{2, 3, 4}}},
        {"LayerNormalization", {{2, 3, 4}, {3, 4}}, {{2, 3, 4}}, {{"axis", one()}}},
        {"LayerNormalization",
         {{2, 3, 4}, {3, 1}, {1}},
         {{2, 3, 4}, {2, 1, 1}, {2, 1, 1}},
         {{"axis", one()}}},
        {"BatchNormalization", {{2, 3, 4, 5}, c, c, c, c}, {{2, 3, 4, 5}}, {}, {}, 15, true},
        {"BatchNormalization",
         {{2, 3, 4}, c, c, c, c},
         {{2, 3, 4}, c, c},
         {{"training_mode", one()}},
         {},
         15,
         true},
        {"Where", {{2, 3}, {3}, {2, 1}}, {{2, 3}}},
    };
}

std::vector<BackwardExample> backward_examples() {
    std::vector<BackwardExample> all;
    for (const auto family : {pointwise_examples, reduction_examples, matrix_examples,
                              window_examples, other_examples}) {
        for (BackwardExample& example : family()) all.push_back(std::move(example));
    }
    return all;
}

/// Is it a number that has no gradient: a condition, an axis, a statistic of the batch that is not
/// read?
bool is_differentiable(const BackwardExample& example, std::size_t operand) {
    if (!example.integers.empty() && operand + 1 == example.operands.size()) return false;
    if (example.type == "Where" && operand == 0) return false;
    return example.type != "CastLike" || operand == 0;
}

graph::OpGraph graph_of(const BackwardExample& example) {
    graph::OpGraph graph;
    graph::Op op{.name = "op", .type = example.type, .opset = example.opset};
    for (std::size_t i = 0; i < example.operands.size(); ++i) {
        graph::Tensor tensor{.name = "x" + std::to_string(i),
                             .shape = example.operands[i],
                             .dtype = graph::DType::float64,
                             .role = graph::TensorRole::input};
        if (!example.integers.empty() && i + 1 == example.operands.size()) {
            tensor.dtype = graph::DType::int64;
            tensor.role = graph::TensorRole::constant;
            tensor.known_integers = example.integers;
        }
        if (example.type == "Where" && i == 0) tensor.dtype = graph::DType::boolean;
        op.inputs.push_back(graph.add_source(std::move(tensor)));
    }
    for (std::size_t i = 0; i < example.results.size(); ++i) {
        op.outputs.push_back(graph.add_tensor({.name = "y" + std::to_string(i),
                                               .shape = example.results[i],
                                               .dtype = graph::DType::float64}));
    }
    for (const auto& [name, value] : example.attributes) op.attributes.set(name, value);
    graph.add_op(std::move(op));
    return graph;
}

Tensors operands_of(const BackwardExample& example) {
    Tensors operands;
    const auto options = at::TensorOptions().dtype(at::kDouble);
    for (std::size_t i = 0; i < example.operands.size(); ++i) {
        const Shape& shape = example.operands[i];
        if (!example.integers.empty() && i + 1 == example.operands.size()) {
            operands.push_back(integer_tensor(example.integers, shape));
        } else if (example.type == "Where" && i == 0) {
            operands.push_back(at::rand(shape, options).gt(0.5));
        } else {
            operands.push_back(example.is_positive ? at::rand(shape, options) + 0.5
                                                   : at::randn(shape, options));
        }
    }
    return operands;
}

/// Keeps what the bits name; from bit 63 on all.
Tensors saved(const Tensors& tensors, std::uint64_t bits) {
    Tensors kept(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (((bits >> std::min<std::size_t>(i, 63)) & 1) != 0) kept[i] = tensors[i];
    }
    return kept;
}

struct BackwardCase {
    explicit BackwardCase(const BackwardExample& example)
        : graph(graph_of(example)),
          op(OpId(graph.op_count() - 1)),
          rule(graph::rule_of(graph, op)),
          kernel(graph, op, rule, graph::whole_box(rule)) {}

    graph::OpGraph graph;
    OpId op;
    graph::OpRule rule;
    PartKernel kernel;
};

/// Of the forward, and for the gradients given.
Tensors autograd(const BackwardCase& made, const Tensors& operands, const std::vector<char>& wanted,
                 const Tensors& given) {
    const at::AutoGradMode grad(true);
    Tensors leaves;
    Tensors all = operands;
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (wanted[i] == 0) continue;
        all[i] = all[i].detach().clone().requires_grad_(true);
        leaves.push_back(all[i]);
    }
    const KernelRow* row = find_kernel("", made.kernel.op().type);
    const Tensors results = row->forward({.op = made.kernel.op(), .operands = all, .bodies = {}});
    Tensors outputs;
    Tensors gradients;
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (!given[i].defined() || !results[i].requires_grad()) continue;
        outputs.push_back(results[i]);
        gradients.push_back(given[i]);
    }
    return torch::autograd::grad(outputs, leaves, gradients, std::nullopt,
                                 /*create_graph=*/false, /*allow_unused=*/true);
}

void expect_gradients_of_autograd(const BackwardExample& example) {
    const BackwardCase made(example);
    ASSERT_FALSE(made.kernel.needs_tape());
    const Tensors operands = operands_of(example);
    std::vector<char> wanted;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        wanted.push_back(is_differentiable(example, i) ? 1 : 0);
    }
    const Tensors results = made.kernel.forward(operands);
    ASSERT_EQ(results[0].sizes().vec(), example.results[0]);
    Tensors given(results.size());
    given[0] = at::randn_like(results[0]);
    const Tensors found =
        made.kernel.backward({}, saved(operands, made.rule.saves_operands),
                             saved(results, made.rule.saves_results), given, wanted);
    const Tensors expected = autograd(made, operands, wanted, given);
    ASSERT_EQ(found.size(), operands.size());
    for (std::size_t i = 0, next = 0; i < operands.size(); ++i) {
        if (wanted[i] == 0) continue;
        const at::Tensor& wished = expected[next++];
        if (!wished.defined()) continue;
        ASSERT_TRUE(found[i].defined()) << "operand " << i;
        ASSERT_EQ(found[i].sizes(), operands[i].sizes()) << "operand " << i;
        EXPECT_TRUE(at::allclose(found[i], wished, 1e-9, 1e-9)) << "operand " << i;
    }
}

TEST(KernelBackward, IsThatOfAutograd) {
    at::manual_seed(1);
    for (const BackwardExample& example : backward_examples()) {
        SCOPED_TRACE(example.type + ", opset " + std::to_string(example.opset));
        expect_gradients_of_autograd(example);
    }
}

/// The products of results and `given`, added up.
double weighted_sum(const BackwardCase& made, const Tensors& operands, const Tensors& given) {
    const Tensors results = made.kernel.forward(operands);
    double sum = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
        sum += (results[i] * given[i]).sum().item<double>();
    }
    return sum;
}

// Autograd has no gradients of these statistics: a difference of forwards has.
TEST(KernelBackward, OfLayerNormalizationKnowsItsStatistics) {
    at::manual_seed(2);
    constexpr double kStep = 1e-5;
    const BackwardCase made({"LayerNormalization",
                             {{2, 3, 4}, {3, 4}, {3, 4}},
                             {{2, 3, 4}, {2, 1, 1}, {2, 1, 1}},
                             {{"axis", one()}}});
    Tensors operands;
    for (const Shape& shape : {Shape{2, 3, 4}, Shape{3, 4}, Shape{3, 4}}) {
        operands.push_back(at::randn(shape, at::TensorOptions().dtype(at::kDouble)));
    }
    const Tensors results = made.kernel.forward(operands);
    Tensors given;
    for (const at::Tensor& result : results) given.push_back(at::randn_like(result));
    const at::Tensor found =
        made.kernel.backward({}, operands, results, given, std::vector<char>{1, 0, 0})[0];
    const at::Tensor direction = at::randn_like(found);
    Tensors ahead = operands;
    ahead[0] = operands[0] + direction * kStep;
    Tensors back = operands;
    back[0] = operands[0] - direction * kStep;
    const double change = weighted_sum(made, ahead, given) - weighted_sum(made, back, given);
    EXPECT_NEAR((found * direction).sum().item<double>(), change / (2 * kStep), 1e-6);
}

// Running statistics are results like any other: a loss may be taken of them, and of nothing else.
TEST(KernelBackward, OfBatchNormalizationKnowsItsStatistics) {
    at::manual_seed(3);
    const Shape c = {3};
    const BackwardExample example{"BatchNormalization",
                                  {{2, 3, 4}, c, c, c, c},
                                  {{2, 3, 4}, c, c},
                                  {{"training_mode", one()}, {"momentum", 0.75}},
                                  {},
                                  15,
                                  true};
    const BackwardCase made(example);
    const Tensors operands = operands_of(example);
    const Tensors results = made.kernel.forward(operands);
    const std::vector<char> wanted(operands.size(), 1);
    for (const bool has_data : {true, false}) {
        Tensors given;
        for (const at::Tensor& result : results) given.push_back(at::randn_like(result));
        if (!has_data) given[0] = at::Tensor();
        const Tensors found =
            made.kernel.backward({}, saved(operands, made.rule.saves_operands),
                                 saved(results, made.rule.saves_results), given, wanted);
        const Tensors expected = autograd(made, operands, wanted, given);
        for (std::size_t i = 0; i < operands.size(); ++i) {
            const at::Tensor wished =
                expected[i].defined() ? expected[i] : at::zeros_like(operands[i]);
            ASSERT_TRUE(found[i].defined()) << "operand " << i;
            EXPECT_TRUE(at::allclose(found[i], wished, 1e-9, 1e-9)) << "operand " << i;
        }
    }
}

TEST(KernelBackward, EveryOneHasAnExample) {
    // fused_kernels_test.cpp, kernel_parts_test.cpp
    std::set<std::string> seen{"Pointwise", "Linear"};
    for (const BackwardExample& example : backward_examples()) seen.insert(example.type);
    for (const std::string& type : types_in_parts()) seen.insert(type);
    for (const KernelRow* row : all_kernels()) {
        if (row->backward == nullptr) continue;
        EXPECT_TRUE(seen.contains(std::string(row->type))) << row->type;
    }
}

/// Of ReduceMax over [4], where the parts together found `result`.
at::Tensor gradient_of_maximum(const at::Tensor& x, double result) {
    const BackwardCase made({"ReduceMax", {{4}}, {{1}}, {{"axes", Integers{0}}}, {}, 11});
    const auto options = x.options();
    return made.kernel.backward({}, std::vector{x}, std::vector{at::full({1}, result, options)},
                                std::vector{at::full({1}, 3.0, options)}, std::vector<char>{1})[0];
}

TEST(KernelBackward, EveryLargestElementGetsTheWholeGradient) {
    const auto options = at::TensorOptions().dtype(at::kDouble);
    const at::Tensor x = at::zeros({4}, options).index_fill(0, integer_tensor({1, 3}, {2}), 5.0);
    EXPECT_TRUE(at::equal(gradient_of_maximum(x, 5.0), x.eq(5.0).to(at::kDouble) * 3));
    // Another part has a larger one.
    EXPECT_TRUE(at::equal(gradient_of_maximum(x, 6.0), at::zeros({4}, options)));
}

/// Of the later half of four elements, 4 and 5, where all parts together found `result`.
at::Tensor gradient_of_later_half(const std::string& type, double result) {
    const BackwardCase made({type, {{4}}, {{1}}, {{"axes", Integers{0}}}, {}, 11});
    graph::Box box = graph::whole_box(made.rule);
    box[0] = graph::part_of(box[0], 2, 1);
    const PartKernel part(made.graph, made.op, made.rule, box);
    const auto options = at::TensorOptions().dtype(at::kDouble);
    const at::Tensor x = integer_tensor({4, 5}, {2}).to(at::kDouble);
    return part.backward({}, std::vector{x}, std::vector{at::full({1}, result, options)},
                         std::vector{at::ones({1}, options)}, std::vector<char>{1})[0];
}

TEST(KernelBackward, OfASplitProductReadsTheResultOfAllParts) {
    const at::Tensor found = gradient_of_later_half("ReduceProd", 2.0 * 3 * 4 * 5);
    EXPECT_TRUE(at::equal(found, integer_tensor({30, 24}, {2}).to(at::kDouble)));
}

TEST(KernelBackward, OfASplitLogSumExpReadsTheResultOfAllParts) {
    double sum = 0;
    for (const double x : {2.0, 3.0, 4.0, 5.0}) sum += std::exp(x);
    const at::Tensor found = gradient_of_later_half("ReduceLogSumExp", std::log(sum));
    const at::Tensor softmax = at::tensor({std::exp(4.0) / sum, std::exp(5.0) / sum}, at::kDouble);
    EXPECT_TRUE(at::allclose(found, softmax)) << found;
}

}  // namespace
}  // namespace partita::runtime
