// SPDX-License-Identifier: Apache-2.0
//
// Kernels that move elements, and recurrent ones, on random float64 numbers, whole and in parts:
//
//     a backward of their own, given what is saved      ==   autograd of the forward
//     parts of every factor, put together or added up   ==   the whole
#include "tests/runtime/kernel_parts_test.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "graph/operators/op_rule.h"
#include "runtime/kernels/part_kernel.h"
#include "runtime/kernels/tensors.h"
#include "tests/runtime/one_op.h"

namespace partita::runtime {
namespace {

using graph::OpGraph;
using graph::Shape;
using Ints = std::vector<std::int64_t>;

/// Random numbers of a shape, or integers, which planning knows or not; no shape: left out.
struct Operand {
    std::optional<Shape> shape;
    Ints values;
    bool is_known = false;
};
Operand numbers(Shape shape) {
    return {.shape = std::move(shape), .values = {}};
}
Operand known(Ints values) {
    return {.shape = Shape{static_cast<std::int64_t>(values.size())},
            .values = std::move(values),
            .is_known = true};
}
Operand given(Shape shape, Ints values) {
    return {.shape = std::move(shape), .values = std::move(values)};
}

struct Case {
    std::string name;
    std::string type;
    std::vector<Operand> operands;
    std::vector<Shape> results;
    std::vector<graph::Attributes::Entry> attributes;
    int opset = 24;
    std::string domain = {};
};

OpGraph graph_of(const Case& c) {
    OpGraph graph;
    graph::Op op{.name = c.name, .type = c.type, .domain = c.domain, .opset = c.opset};
    for (const auto& [name, value] : c.attributes) op.attributes.set(name, value);
    for (std::size_t i = 0; i < c.operands.size(); ++i) {
        const Operand& operand = c.operands[i];
        if (!operand.shape) {
            op.inputs.emplace_back();
            continue;
        }
        graph::Tensor tensor{.name = "x" + std::to_string(i), .shape = *operand.shape};
        const bool is_integral = !operand.values.empty();
        tensor.dtype = is_integral ? graph::DType::int64 : graph::DType::float64;
        tensor.role = graph::TensorRole::input;
        if (operand.is_known) tensor.known_integers = operand.values;
        op.inputs.push_back(graph.add_source(std::move(tensor)));
    }
    for (std::size_t i = 0; i < c.results.size(); ++i) {
        op.outputs.push_back(graph.add_tensor({.name = "y" + std::to_string(i),
                                               .shape = c.results[i],
                                               .dtype = graph::DType::float64}));
    }
    graph.add_op(std::move(op));
    return graph;
}

Tensors operands_of(const Case& c) {
    Tensors operands;
    for (const Operand& operand : c.operands) {
        if (!operand.shape) {
            operands.emplace_back();
        } else if (operand.values.empty()) {
            operands.push_back(at::randn(*operand.shape, at::kDouble));
        } else {
            operands.push_back(integer_tensor(operand.values, *operand.shape));
        }
    }
    return operands;
}

/// The region's positions, dim by dim, so that they select a box with holes.
c10::List<std::optional<at::Tensor>> selection(const graph::Region& region) {
    c10::List<std::optional<at::Tensor>> indices;
    for (std::size_t dim = 0; dim < region.dims.size(); ++dim) {
        Ints positions;
        for (const graph::Range& range : region.dims[dim]) {
            for (std::int64_t p = range.begin; p < range.end; ++p) positions.push_back(p);
        }
        Ints shape(region.dims.size(), 1);
        shape[dim] = static_cast<std::int64_t>(positions.size());
        indices.push_back(at::tensor(positions, at::kLong).reshape(shape));
    }
    return indices;
}

at::Tensor taken(const at::Tensor& tensor, const graph::Region& region) {
    return region.dims.empty() ? tensor : at::index(tensor, selection(region));
}

Tensors taken(const PartKernel& kernel, const Tensors& operands) {
    Tensors result;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const graph::PartOperand& operand = kernel.op().operands[i];
        const bool is_region = operand.source == graph::PartOperand::Source::region;
        result.push_back(is_region ? taken(operands[i], operand.region) : at::Tensor());
    }
    return result;
}

/// The whole box, and for every factor its two halves.
std::vector<std::vector<graph::Box>> splits_of(const graph::OpRule& rule) {
    std::vector<std::vector<graph::Box>> splits{{graph::whole_box(rule)}};
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (!rule.factors[f].splittable || rule.factors[f].extent < 2) continue;
        if (rule.factors[f].reduction && rule.factors[f].combine != graph::Combine::sum) continue;
        std::vector<graph::Box> halves(2, graph::whole_box(rule));
        for (std::size_t i = 0; i < 2; ++i) {
            halves[i][f] = graph::part_of(halves[i][f], 2, static_cast<std::int64_t>(i));
        }
        splits.push_back(std::move(halves));
    }
    return splits;
}

std::vector<char> wanted_of(const Tensors& operands) {
    std::vector<char> wanted;
    for (const at::Tensor& operand : operands) {
        wanted.push_back(operand.defined() && operand.is_floating_point() ? 1 : 0);
    }
    return wanted;
}

Tensors by_autograd(const PartKernel& kernel, Tensors operands, const Tensors& gradients,
                    const std::vector<char>& wanted) {
    const at::AutoGradMode grad(true);
    Tensors leaves;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (wanted[i] == 0) continue;
        operands[i] = operands[i].detach().requires_grad_(true);
        leaves.push_back(operands[i]);
    }
    const Tensors results = kernel.run(operands);
    Tensors outputs;
    Tensors given_gradients;
    for (std::size_t i = 0; i < results.size(); ++i) {
        if (!gradients[i].defined() || !results[i].requires_grad()) continue;
        outputs.push_back(results[i]);
        given_gradients.push_back(gradients[i]);
    }
    return torch::autograd::grad(outputs, leaves, given_gradients, std::nullopt, false, true);
}

class KernelParts : public ::testing::TestWithParam<Case> {};

void expect_equal_backward(const PartKernel& kernel, const graph::OpRule& rule,
                           const Tensors& operands, std::size_t left_out) {
    const std::vector<char> wanted = wanted_of(operands);
    const Tensors results = kernel.forward(operands);
    Tensors gradients;
    for (const at::Tensor& result : results) gradients.push_back(at::randn_like(result));
    if (left_out < gradients.size() && gradients.size() > 1) gradients[left_out] = at::Tensor();
    const Tensors expected = by_autograd(kernel, operands, gradients, wanted);
    const Tensors found = kernel.backward({}, only(operands, rule.saves_operands),
                                          only(results, rule.saves_results), gradients, wanted);
    for (std::size_t i = 0, next = 0; i < operands.size(); ++i) {
        if (wanted[i] == 0) {
            EXPECT_FALSE(found[i].defined()) << "operand " << i;
            continue;
        }
        const at::Tensor& other = expected[next++];
        const at::Tensor zero = at::zeros_like(operands[i]);
        const at::Tensor& own = found[i].defined() ? found[i] : zero;
        EXPECT_EQ(own.sizes(), operands[i].sizes()) << "operand " << i;
        EXPECT_TRUE(at::allclose(own, other.defined() ? other : zero, 1e-9, 1e-11))
            << "operand " << i;
    }
}

TEST_P(KernelParts, BackwardIsThatOfAutograd) {
    at::manual_seed(1);
    const OpGraph graph = graph_of(GetParam());
    const graph::OpId op(graph.op_count() - 1);
    const graph::OpRule rule = graph::rule_of(graph, op);
    const Tensors operands = operands_of(GetParam());
    for (const std::vector<graph::Box>& split : splits_of(rule)) {
        for (const graph::Box& box : split) {
            const PartKernel kernel(graph, op, rule, box);
            if (kernel.needs_tape()) return;
            for (std::size_t i = 0; i <= GetParam().results.size(); ++i) {
                expect_equal_backward(kernel, rule, taken(kernel, operands), i);
            }
        }
    }
}

TEST_P(KernelParts, AreTheWhole) {
    at::manual_seed(2);
    const OpGraph graph = graph_of(GetParam());
    const graph::OpId op(graph.op_count() - 1);
    const graph::OpRule rule = graph::rule_of(graph, op);
    const Tensors operands = operands_of(GetParam());
    const PartKernel whole(graph, op, rule, graph::whole_box(rule));
    const Tensors expected = whole.forward(taken(whole, operands));
    for (const std::vector<graph::Box>& split : splits_of(rule)) {
        Tensors found;
        for (const Shape& shape : GetParam().results)
            found.push_back(at::zeros(shape, at::kDouble));
        for (const graph::Box& box : split) {
            const PartKernel kernel(graph, op, rule, box);
            const Tensors results = kernel.forward(taken(kernel, operands));
            for (std::size_t i = 0; i < results.size(); ++i) {
                const graph::PartResult& result = kernel.op().results[i];
                at::index_put_(found[i], selection(result.region), results[i],
                               /*accumulate=*/result.combine == graph::Combine::sum);
            }
        }
        for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(found[i].sizes(), expected[i].sizes());
            EXPECT_TRUE(at::allclose(found[i], expected[i], 1e-9, 1e-11)) << "result " << i;
        }
    }
}

std::vector<Case> cases() {
    const std::string bidirectional = "bidirectional";
    const auto hidden = [](std::int64_t h) { return graph::Attributes::Entry{"hidden_size", h}; };
    const auto integer = [](const char* name, std::int64_t value) {
        return graph::Attributes::Entry{name, value};
    };
    return {
        {"Identity", "Identity", {numbers({2, 3})}, {{2, 3}}, {}},
        {"Reshape", "Reshape", {numbers({4, 6, 5}), known({4, -1, 3})}, {{4, 10, 3}}, {}},
        {"Flatten", "Flatten", {numbers({4, 6, 5})}, {{4, 30}}, {}},
        {"Squeeze", "Squeeze", {numbers({4, 1, 6})}, {{4, 6}}, {}},
        {"Unsqueeze", "Unsqueeze", {numbers({4, 6}), known({-1, 0})}, {{1, 4, 6, 1}}, {}},
        {"Transpose", "Transpose", {numbers({2, 4, 6})}, {{6, 2, 4}}, {{"perm", Ints{2, 0, 1}}}},
        {"TransposeAsView",
         "Transpose",
         {numbers({2, 4, 6})},
         {{6, 2, 4}},
         {{"perm", Ints{2, 0, 1}}},
         0,
         "partita"},
        {"Expand", "Expand", {numbers({4, 1, 6}), known({2, 1, 3, 6})}, {{2, 4, 3, 6}}, {}},
        {"Concat",
         "Concat",
         {numbers({2, 4}), numbers({2, 6}), numbers({2, 2})},
         {{2, 12}},
         {{"axis", std::int64_t{-1}}}},
        {"ConcatEven",
         "Concat",
         {numbers({4, 2}), numbers({4, 2})},
         {{8, 2}},
         {{"axis", std::int64_t{0}}}},
        {"Split",
         "Split",
         {numbers({4, 8})},
         {{4, 4}, {4, 4}},
         {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{2}}}},
        {"SplitUneven",
         "Split",
         {numbers({4, 7}), known({4, 3})},
         {{4, 4}, {4, 3}},
         {{"axis", std::int64_t{1}}}},
        {"SplitUnknown", "Split", {numbers({7, 4}), given({2}, {5, 2})}, {{5, 4}, {2, 4}}, {}},
        {"Slice",
         "Slice",
         {numbers({4, 9, 6}), known({3}), known({8}), known({1}), known({2})},
         {{4, 3, 6}},
         {}},
        {"SliceBackwards",
         "Slice",
         {numbers({4, 9}), known({-1}), known({-100}), known({-1}), known({-2})},
         {{4, 5}},
         {}},
        {"SliceUnknown",
         "Slice",
         {numbers({4, 9}), given({1}, {2}), given({1}, {7}), given({1}, {1}), given({1}, {1})},
         {{4, 5}},
         {}},
        {"SliceAttributes",
         "Slice",
         {numbers({4, 9})},
         {{4, 4}},
         {{"starts", Ints{-4}}, {"ends", Ints{9}}, {"axes", Ints{1}}},
         1},
        {"Pad", "Pad", {numbers({4, 6}), known({0, 1, 0, 2})}, {{4, 9}}, {}},
        {"PadCrops", "Pad", {numbers({4, 6}), known({1, -1, 0, 2})}, {{5, 7}}, {}},
        {"PadReflects",
         "Pad",
         {numbers({4, 6}), known({1, 2, 3, 0})},
         {{8, 8}},
         {{"mode", std::string("reflect")}}},
        {"PadWraps",
         "Pad",
         {numbers({4, 3}), known({0, 4, 0, -1})},
         {{4, 6}},
         {{"mode", std::string("wrap")}}},
        {"PadAxes",
         "Pad",
         {numbers({4, 6}), given({2}, {2, 1}), Operand{}, given({1}, {-1})},
         {{4, 9}},
         {{"mode", std::string("edge")}}},
        {"Gather",
         "Gather",
         {numbers({6, 4}), given({2, 3}, {0, 5, -1, 2, 2, -6})},
         {{2, 3, 4}},
         {}},
        {"GatherColumns",
         "Gather",
         {numbers({2, 6, 4}), given({3}, {5, 0, 5})},
         {{2, 3, 4}},
         {{"axis", std::int64_t{1}}}},
        {"GatherElements",
         "GatherElements",
         {numbers({4, 3}), given({2, 3}, {0, 3, -1, 2, 3, 0})},
         {{2, 3}},
         {}},
        {"GatherND",
         "GatherND",
         {numbers({2, 3, 4}), given({2, 2, 1}, {0, 2, -1, 1})},
         {{2, 2, 4}},
         {{"batch_dims", std::int64_t{1}}}},
        {"AttentionCausal",
         "Attention",
         {numbers({2, 4, 5, 6}), numbers({2, 2, 5, 6}), numbers({2, 2, 5, 3})},
         {{2, 4, 5, 3}},
         {integer("is_causal", 1)}},
        {"AttentionCausalMasked",
         "Attention",
         {numbers({2, 7, 8}), numbers({2, 5, 4}), numbers({2, 5, 6}), numbers({7, 5})},
         {{2, 7, 12}},
         {integer("is_causal", 1), integer("kv_num_heads", 2), integer("q_num_heads", 4)},
         23},
        {"AttentionDropsScores",
         "Attention",
         {numbers({2, 4, 6, 6}), numbers({2, 2, 8, 6}), numbers({2, 2, 8, 3}), numbers({6, 8})},
         {{2, 4, 6, 3}},
         {{"dropout_name", std::string("dropout")}, {"dropout_ratio", 0.4}}},
        {"BlockAttentionDropsScores",
         "BlockAttention",
         {numbers({2, 4, 6, 6}), numbers({2, 2, 8, 6}), numbers({2, 2, 8, 3}), Operand{},
          numbers({2, 4, 6, 3}), numbers({2, 4, 6}), numbers({2, 4, 6})},
         {{2, 4, 6, 3}, {2, 4, 6}, {2, 4, 6}},
         {integer("blocks", 2),
          {"dropout_name", std::string("dropout")},
          {"dropout_ratio", 0.4},
          integer("step", 1)},
         0,
         "partita"},
        {"BlockAttention",
         "BlockAttention",
         {numbers({2, 4, 6, 6}), numbers({2, 2, 8, 6}), numbers({2, 2, 8, 3}),
          numbers({2, 1, 6, 8})},
         {{2, 4, 6, 3}, {2, 4, 6}, {2, 4, 6}},
         {integer("blocks", 2), integer("step", 1)},
         0,
         "partita"},
        {"BlockAttentionOneRowOfMask",
         "BlockAttention",
         {numbers({2, 4, 6, 6}), numbers({2, 2, 9, 6}), numbers({2, 2, 9, 3}), numbers({1, 9}),
          numbers({2, 4, 6, 3}), numbers({2, 4, 6}), numbers({2, 4, 6})},
         {{2, 4, 6, 3}, {2, 4, 6}, {2, 4, 6}},
         {integer("blocks", 3), integer("step", 1)},
         0,
         "partita"},
        {"BlockAttentionCausal",
         "BlockAttention",
         {numbers({2, 8, 8}), numbers({2, 8, 4}), numbers({2, 8, 6}), Operand{},
          numbers({2, 8, 12}), numbers({2, 8, 4}), numbers({2, 8, 4})},
         {{2, 8, 12}, {2, 8, 4}, {2, 8, 4}},
         {integer("blocks", 4), integer("is_causal", 1), integer("kv_num_heads", 2),
          integer("q_num_heads", 4), integer("step", 3)},
         0,
         "partita"},
        {"Linear",
         "Linear",
         {numbers({2, 3, 4}), numbers({4, 6}), numbers({6})},
         {{2, 3, 6}},
         {},
         0,
         "partita"},
        {"LinearWithoutBias",
         "Linear",
         {numbers({3, 4}), numbers({4, 6}), Operand{}},
         {{3, 6}},
         {},
         0,
         "partita"},
        {"BlockAttentionResult",
         "BlockAttentionResult",
         {numbers({2, 4, 5, 3}), numbers({2, 4, 5})},
         {{2, 4, 5, 3}},
         {},
         0,
         "partita"},
        {"BlockAttentionResultPacked",
         "BlockAttentionResult",
         {numbers({2, 5, 12}), numbers({2, 5, 4})},
         {{2, 5, 12}},
         {},
         0,
         "partita"},
        {"LSTM",
         "LSTM",
         {numbers({5, 4, 6}), numbers({1, 12, 6}), numbers({1, 12, 3}), numbers({1, 24})},
         {{5, 1, 4, 3}, {1, 4, 3}, {1, 4, 3}},
         {hidden(3)}},
        {"LSTMBidirectional",
         "LSTM",
         {numbers({5, 2, 6}), numbers({2, 8, 6}), numbers({2, 8, 2}), numbers({2, 16}), Operand{},
          numbers({2, 2, 2}), numbers({2, 2, 2})},
         {{5, 2, 2, 2}, {2, 2, 2}, {2, 2, 2}},
         {hidden(2), {"direction", bidirectional}}},
        {"LSTMBatchFirst",
         "LSTM",
         {numbers({2, 5, 6}), numbers({2, 8, 6}), numbers({2, 8, 2}), Operand{}, Operand{},
          numbers({2, 2, 2})},
         {{2, 5, 2, 2}, {2, 2, 2}, {2, 2, 2}},
         {hidden(2), {"direction", bidirectional}, {"layout", std::int64_t{1}}}},
        {"LSTMOneStep",
         "LSTM",
         {numbers({1, 2, 6}), numbers({1, 16, 6}), numbers({1, 16, 4}), numbers({1, 32}), Operand{},
          numbers({1, 2, 4}), numbers({1, 2, 4})},
         {{1, 1, 2, 4}, {1, 2, 4}, {1, 2, 4}},
         {hidden(4)}},
        {"LSTMPeepholes",
         "LSTM",
         {numbers({3, 2, 6}), numbers({1, 16, 6}), numbers({1, 16, 4}), numbers({1, 32}),
          given({2}, {3, 2}), numbers({1, 2, 4}), numbers({1, 2, 4}), numbers({1, 12})},
         {{3, 1, 2, 4}, {1, 2, 4}, {1, 2, 4}},
         {hidden(4), {"clip", 0.5}, {"direction", std::string("reverse")}}},
    };
}

INSTANTIATE_TEST_SUITE_P(, KernelParts, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace

std::vector<std::string> types_in_parts() {
    std::vector<std::string> types;
    for (const Case& each : cases()) types.push_back(each.type);
    return types;
}

}  // namespace partita::runtime
