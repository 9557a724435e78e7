// SPDX-License-Identifier: Apache-2.0
//
// A fused kernel computes what its ops compute, and its backward, from what is saved alone, what
// autograd finds for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "graph/fusion/fuse.h"
#include "runtime/kernels/part_kernel.h"
#include "runtime/kernels/run_graph.h"
#include "tests/plan/network_builder.h"

namespace partita::runtime {
namespace {

using graph::OpGraph;
using graph::TensorId;
using plan::add_compute;

const SourceValue kNoSource = [](const graph::Tensor&) { return at::Tensor(); };
const graph::Shape kShape = {3, 5, 4};

struct FusedCase {
    const char* kernel;
    std::vector<graph::Shape> operands;
    /// Adds the ops; the last one is the result.
    void (*build)(OpGraph& graph, const std::vector<TensorId>& operands);
};

const FusedCase kCases[] = {
    {"silu",
     {kShape},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId sigmoid = add_compute(graph, "sigmoid", "Sigmoid", {x[0]}, kShape);
         add_compute(graph, "mul", "Mul", {x[0], sigmoid}, kShape);
     }},
    {"swiglu",
     {kShape, kShape},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId sigmoid = add_compute(graph, "sigmoid", "Sigmoid", {x[0]}, kShape);
         const TensorId silu = add_compute(graph, "silu", "Mul", {x[0], sigmoid}, kShape);
         add_compute(graph, "mul", "Mul", {silu, x[1]}, kShape);
     }},
    {"weighted-swiglu",
     {kShape, {3, 5, 1}, kShape},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId sigmoid = add_compute(graph, "sigmoid", "Sigmoid", {x[0]}, kShape);
         const TensorId silu = add_compute(graph, "silu", "Mul", {x[0], sigmoid}, kShape);
         const TensorId gated = add_compute(graph, "gated", "Mul", {silu, x[2]}, kShape);
         add_compute(graph, "weighted", "Mul", {gated, x[1]}, kShape);
     }},
    {"gelu",
     {{}, {}, {}, kShape},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId scaled = add_compute(graph, "div", "Div", {x[3], x[0]}, kShape);
         const TensorId erf = add_compute(graph, "erf", "Erf", {scaled}, kShape);
         const TensorId sum = add_compute(graph, "add", "Add", {x[1], erf}, kShape);
         const TensorId mul = add_compute(graph, "mul", "Mul", {sum, x[3]}, kShape);
         add_compute(graph, "half", "Mul", {mul, x[2]}, kShape);
     }},
    {"gelu-tanh",
     {{}, {}, {}, {}, {}, kShape},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId half = add_compute(graph, "half", "Mul", {x[5], x[1]}, kShape);
         const TensorId pow = add_compute(graph, "pow", "Pow", {x[5], x[4]}, kShape);
         const TensorId cubic = add_compute(graph, "cubic", "Mul", {pow, x[0]}, kShape);
         const TensorId sum = add_compute(graph, "sum", "Add", {x[5], cubic}, kShape);
         const TensorId scaled = add_compute(graph, "scaled", "Mul", {sum, x[2]}, kShape);
         const TensorId tanh = add_compute(graph, "tanh", "Tanh", {scaled}, kShape);
         const TensorId add = add_compute(graph, "add", "Add", {tanh, x[3]}, kShape);
         add_compute(graph, "mul", "Mul", {half, add}, kShape);
     }},
    {"bias-gelu",
     {{4}, kShape},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId sum = add_compute(graph, "add", "Add", {x[1], x[0]}, kShape);
         add_compute(graph, "gelu", "Gelu", {sum}, kShape);
     }},
    {"Add(Tanh(x), Add(y, z))",
     {kShape, {5, 1}, {1}},
     [](OpGraph& graph, const std::vector<TensorId>& x) {
         const TensorId tanh = add_compute(graph, "tanh", "Tanh", {x[0]}, kShape);
         const TensorId sum = add_compute(graph, "sum", "Add", {x[1], x[2]}, {5, 1});
         add_compute(graph, "add", "Add", {tanh, sum}, kShape);
     }},
};

class FusedKernels : public testing::TestWithParam<FusedCase> {};

TEST_P(FusedKernels, ComputeWhatTheirOpsCompute) {
    at::manual_seed(1);
    OpGraph plain;
    std::vector<TensorId> ids;
    Tensors operands;
    for (const graph::Shape& shape : GetParam().operands) {
        const std::string name = "x" + std::to_string(ids.size());
        ids.push_back(plan::add_source(plain, name, graph::TensorRole::input, shape));
        operands.push_back(at::rand(shape) + 0.5);
    }
    GetParam().build(plain, ids);
    plain.add_output("y", plain.ops().back().outputs[0]);
    const OpGraph with = graph::fused(plain, {GetParam().kernel}, "model.onnx", {}).graph;
    const graph::OpId id(with.op_count() - 2);
    ASSERT_EQ(with.op(id).type, "Pointwise");

    Tensors leaves;
    for (const at::Tensor& operand : operands) {
        leaves.push_back(operand.clone().requires_grad_(true));
    }
    at::Tensor expected;
    Tensors gradients;
    const at::Tensor given = at::randn(kShape);
    {
        const at::AutoGradMode grad(true);
        expected = run_graph(plain, leaves, kNoSource)[0];
        gradients = torch::autograd::grad({expected}, leaves, {given});
    }

    const graph::OpRule rule = graph::rule_of(with, id);
    const PartKernel kernel(with, id, rule, graph::whole_box(rule));
    const Tensors results = kernel.forward(operands);
    EXPECT_TRUE(at::allclose(results[0], expected.detach()));
    Tensors saved = operands;
    for (std::size_t i = 0; i < saved.size(); ++i) {
        if (!rule.saves_operand(i)) saved[i] = at::Tensor();
    }
    const std::vector<char> all(operands.size(), 1);
    const Tensors found = kernel.backward({}, saved, Tensors(1), Tensors{given}, all);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        EXPECT_TRUE(at::allclose(found[i], gradients[i], 1e-4, 1e-5)) << "operand " << i;
    }
    std::vector<char> last(operands.size(), 0);
    last.back() = 1;
    const Tensors one = kernel.backward({}, saved, Tensors(1), Tensors{given}, last);
    EXPECT_TRUE(at::allclose(one.back(), gradients.back(), 1e-4, 1e-5));
    EXPECT_TRUE(operands.size() == 1 || !one.front().defined());
}

/// By the place of an operand: its value. The others are known to nobody.
using Numbers = std::vector<std::pair<std::size_t, double>>;

/// Of the kernel's case: what it becomes where those operands are such numbers.
void becomes(const char* kernel, const Numbers& numbers, const char* type) {
    SCOPED_TRACE(std::string(kernel) + " as " + type);
    const FusedCase& found = *std::ranges::find_if(
        kCases, [&](const FusedCase& each) { return std::string_view(each.kernel) == kernel; });
    OpGraph plain;
    std::vector<TensorId> ids;
    for (const graph::Shape& shape : found.operands) {
        ids.push_back(plan::add_source(plain, "x" + std::to_string(ids.size()),
                                       graph::TensorRole::input, shape));
    }
    found.build(plain, ids);
    plain.add_output("y", plain.ops().back().outputs[0]);
    const graph::NumberOf number = [&](TensorId t) -> std::optional<double> {
        for (const auto& [operand, value] : numbers) {
            if (ids[operand] == t) return value;
        }
        return std::nullopt;
    };
    const OpGraph with = graph::fused(plain, {kernel}, "model.onnx", number).graph;
    const graph::Op& op = with.op(graph::OpId(with.op_count() - 2));
    ASSERT_EQ(op.type, type);
    if (op.type != "Gelu") return;
    EXPECT_EQ(op.inputs.size(), 1U);

    at::manual_seed(1);
    const at::Tensor x = at::randn(kShape) * 3;
    Tensors operands(ids.size());
    for (const auto& [operand, value] : numbers) operands[operand] = at::scalar_tensor(value);
    for (at::Tensor& operand : operands) {
        if (!operand.defined()) operand = x;
    }
    const at::Tensor expected = run_graph(plain, operands, kNoSource)[0];
    EXPECT_TRUE(at::allclose(run_graph(with, operands, kNoSource)[0], expected, 1e-5, 1e-6));
}

TEST(FusedKernels, GeluOfItsOwnConstantsIsOneOperator) {
    constexpr double kRoot = 1.4142135623730951;
    becomes("gelu", {{0, kRoot}, {1, 1.0}, {2, 0.5}}, "Gelu");
    becomes("gelu", {{0, kRoot}, {1, 1.0}, {2, 0.25}}, "Pointwise");
    becomes("gelu", {{0, kRoot}, {1, 1.0}}, "Pointwise");
    const Numbers tanh{{0, 0.044715}, {1, 0.5}, {2, 0.7978845608028654}, {3, 1.0}, {4, 3.0}};
    becomes("gelu-tanh", tanh, "Gelu");
    Numbers squared = tanh;
    squared.back().second = 2.0;
    becomes("gelu-tanh", squared, "Pointwise");
}

INSTANTIATE_TEST_SUITE_P(All, FusedKernels, testing::ValuesIn(kCases));

}  // namespace
}  // namespace partita::runtime
