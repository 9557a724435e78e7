// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/operands.h"

#include <algorithm>
#include <string>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "graph/operators/part.h"
#include "runtime/kernels/expected.h"

namespace partita::runtime {

namespace {

constexpr int kBroadcastsFromTheRight = 7;  // the first opset that does

/// Dims of 1 that follow those of an operand of `rank` dims, so that it stands at `axis`.
std::int64_t trailing_dims(const graph::PartOp& op, std::int64_t full_rank, std::int64_t rank) {
    if (op.opset >= kBroadcastsFromTheRight || op.attributes.find("axis") == nullptr) return 0;
    const std::int64_t axis = from_front(op.attributes.get_int("axis", 0), full_rank);
    return std::max<std::int64_t>(full_rank - axis - rank, 0);
}

}  // namespace

std::int64_t from_front(std::int64_t axis, std::int64_t rank) {
    const std::int64_t dims = std::max<std::int64_t>(rank, 1);
    if (axis < -dims || axis >= dims) {
        expect(false,
               "axis: expected a dim of " + std::to_string(rank) + ", got " + std::to_string(axis));
    }
    return axis < 0 ? axis + dims : axis;
}

namespace {

at::Tensor second_operand_of(const KernelCall& call, std::int64_t dims_of_first) {
    at::Tensor operand = call.operand(1);
    const std::int64_t added = trailing_dims(call.op, dims_of_first, operand.dim());
    for (std::int64_t i = 0; i < added; ++i) operand = operand.unsqueeze(-1);
    return operand;
}

}  // namespace

at::Tensor second_operand(const KernelCall& call) {
    return second_operand_of(call, call.operand(0).dim());
}

at::Tensor second_operand(const BackwardCall& call) {
    return second_operand_of(call, std::ssize(call.operand_shapes[0]));
}

Tensors to_operands(const BackwardCall& call,
                    const std::function<at::Tensor(std::size_t)>& gradient) {
    Tensors gradients(call.wanted.size());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (!call.wants(i)) continue;
        const graph::Shape& shape = call.operand_shapes[i];
        graph::Shape aligned = shape;
        if (i == 1) {
            const auto full = static_cast<std::int64_t>(call.operand_shapes[0].size());
            const auto rank = static_cast<std::int64_t>(shape.size());
            aligned.resize(
                shape.size() + static_cast<std::size_t>(trailing_dims(call.op, full, rank)), 1);
        }
        gradients[i] = unbroadcast(gradient(i), aligned).reshape(shape);
    }
    return gradients;
}

graph::Shape result_extents(const KernelCall& call, std::size_t result) {
    return graph::extents_of(call.op.results[result].region);
}

Tensors differentiate_again(const BackwardCall& call, ForwardKernel forward) {
    const at::AutoGradMode grad(true);
    Tensors operands(call.operands.begin(), call.operands.end());
    Tensors leaves;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!call.wants(i) || !operands[i].defined()) continue;
        operands[i] = operands[i].detach().requires_grad_(true);
        leaves.push_back(operands[i]);
    }
    KernelCall again = call;
    again.operands = operands;
    const Tensors results = forward(again);
    Tensors outputs;
    Tensors given;
    for (std::size_t i = 0; i < results.size() && i < call.gradients.size(); ++i) {
        if (!call.gradients[i].defined() || !results[i].requires_grad()) continue;
        outputs.push_back(results[i]);
        given.push_back(call.gradients[i]);
    }
    Tensors gradients(call.wanted.size());
    if (outputs.empty() || leaves.empty()) return gradients;
    const Tensors found = torch::autograd::grad(outputs, leaves, given, std::nullopt,
                                                /*create_graph=*/false, /*allow_unused=*/true);
    for (std::size_t i = 0, next = 0; i < gradients.size() && next < found.size(); ++i) {
        if (call.wants(i) && call.operand(i).defined()) gradients[i] = found[next++];
    }
    return gradients;
}

Tensors differentiate_linear(const BackwardCall& call, ForwardKernel forward) {
    BackwardCall at_zero = call;
    Tensors operands(call.operands.begin(), call.operands.end());
    operands[0] = at::zeros(call.operand_shapes[0], call.gradients[0].options());
    at_zero.operands = operands;
    return differentiate_again(at_zero, forward);
}

}  // namespace partita::runtime
