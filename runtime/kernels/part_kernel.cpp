// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/part_kernel.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/kernels/expected.h"
#include "runtime/kernels/heads.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::PartOperand;

namespace {

at::Tensor cropped(at::Tensor result, const std::vector<graph::Range>& crop) {
    for (std::size_t dim = 0; dim < crop.size(); ++dim) {
        result = result.narrow(static_cast<std::int64_t>(dim), crop[dim].begin,
                               crop[dim].end - crop[dim].begin);
    }
    return result;
}

/// Of an operand that the part takes whole: axes, repeats, a shape; undefined when it is not known.
at::Tensor known_value(const graph::OpGraph& graph, graph::TensorId id,
                       const PartOperand& operand) {
    if (operand.source != PartOperand::Source::region) return {};
    const graph::Tensor& tensor = graph.tensor(id);
    const auto type = scalar_type_of(tensor.dtype);
    if (!tensor.known_integers || !type) return {};
    if (extents_of(operand.region) != tensor.shape) return {};
    return integer_tensor(*tensor.known_integers, tensor.shape).to(*type);
}

}  // namespace

PartKernel::PartKernel(const graph::OpGraph& graph, graph::OpId id, const graph::OpRule& rule,
                       const graph::Box& box, at::Device device, SourceValue source)
    : op_(graph::part_op(graph, id, rule, box)),
      bodies_(&graph.op(id).bodies),
      device_(device),
      source_(std::move(source)) {
    row_ = find_kernel(op_.domain, op_.type);  // a part may be of another operator
    assert(row_ != nullptr);
    const std::vector<graph::TensorId>& inputs = graph.op(id).inputs;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
        const PartOperand& operand = op_.operands[i];
        const at::Device where = row_->reads_on_host(i) ? at::kCPU : device_;
        integers_.emplace_back();
        if (operand.source == PartOperand::Source::integers) {
            const auto type = scalar_type_of(operand.dtype);
            integers_.back() = integer_tensor(operand.integers, operand.shape).to(where, *type);
        }
        known_.push_back(i < inputs.size() ? known_value(graph, inputs[i], operand) : at::Tensor());
        shapes_.push_back(operand.source == PartOperand::Source::region ? extents_of(operand.region)
                                                                        : operand.shape);
    }
    for (const graph::PartResult& result : op_.results) {
        is_cropped_ = is_cropped_ || !result.crop.empty();
    }
}

void PartKernel::attend_causally() {
    op_.operands[kMask] = {};
    op_.attributes.set("is_causal", std::int64_t{1});
}

KernelCall PartKernel::call_of(std::span<const at::Tensor> operands) const {
    return {
        .op = op_, .operands = operands, .bodies = *bodies_, .source = &source_, .device = device_};
}

/// An operand that the kernel reads on the host: what the graph knows need not be waited for.
at::Tensor PartKernel::placed(const at::Tensor& given, std::size_t operand) const {
    if (!row_->reads_on_host(operand) || !given.defined() || given.is_cpu()) return given;
    return known_[operand].defined() ? known_[operand] : given.cpu();
}

/// The kernel's operands: the part's own integers, regions, or nothing.
Tensors PartKernel::taken(std::span<const at::Tensor> operands) const {
    Tensors result;
    for (std::size_t i = 0; i < op_.operands.size(); ++i) {
        if (op_.operands[i].source == PartOperand::Source::region) {
            result.push_back(i < operands.size() ? placed(operands[i], i) : at::Tensor());
        } else {
            result.push_back(integers_[i]);
        }
    }
    if (op_.row_mask) {
        at::Tensor& indices = result[static_cast<std::size_t>(op_.row_mask->operand)];
        if (indices.defined()) indices = indices_of(indices);
    }
    return result;
}

/// Into the rows that the part holds; those of other parts become row 0.
at::Tensor PartKernel::indices_of(const at::Tensor& indices) const {
    const graph::RowMask& mask = *op_.row_mask;
    const at::Tensor global = at::where(indices.lt(0), indices + mask.extent, indices);
    const at::Tensor inside = global.ge(mask.rows.begin).logical_and(global.lt(mask.rows.end));
    return at::where(inside, global - mask.rows.begin, at::zeros_like(global));
}

/// Zero where `indices`, the op's own, name a row of another part.
at::Tensor PartKernel::masked(const at::Tensor& result, const at::Tensor& indices) const {
    const graph::RowMask& mask = *op_.row_mask;
    const at::Tensor global = at::where(indices.lt(0), indices + mask.extent, indices);
    at::Tensor outside = global.lt(mask.rows.begin).logical_or(global.ge(mask.rows.end));
    for (std::int64_t d = 0; d < mask.result_dim; ++d) outside = outside.unsqueeze(0);
    while (outside.dim() < result.dim()) outside = outside.unsqueeze(-1);
    return result.masked_fill(outside, 0);
}

Tensors PartKernel::run(std::span<const at::Tensor> operands) const {
    const Tensors found = taken(operands);
    const KernelCall call = call_of(found);
    check_operands(*row_, call);
    Tensors results = row_->forward(call);
    results.resize(op_.results.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
        const graph::PartResult& wanted = op_.results[i];
        if (!wanted.is_wanted || !results[i].defined()) continue;
        if (!wanted.crop.empty()) results[i] = cropped(results[i], wanted.crop);
        if (wanted.weight != 1.0) results[i] = results[i] * wanted.weight;
        if (op_.row_mask && i == 0) {
            const auto indices = static_cast<std::size_t>(op_.row_mask->operand);
            results[i] = masked(results[i], operands[indices]);
        }
        if (!results[i].is_contiguous()) results[i] = results[i].contiguous();
    }
    return results;
}

Tensors PartKernel::forward(std::span<const at::Tensor> operands) const {
    const at::NoGradGuard no_grad;
    return run(operands);
}

Tensors PartKernel::forward(std::span<const at::Tensor> operands, std::span<const char> wanted,
                            Tape& tape) const {
    if (!needs_tape()) return forward(operands);
    const at::AutoGradMode grad(true);
    tape.operands.assign(operands.begin(), operands.end());
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (wanted[i] == 0 || !operands[i].defined()) continue;
        tape.operands[i] = operands[i].detach();
        tape.operands[i].requires_grad_(true);
    }
    tape.results = run(tape.operands);
    Tensors detached;
    for (const at::Tensor& result : tape.results) {
        detached.push_back(result.defined() ? result.detach() : result);
    }
    return detached;
}

Tensors PartKernel::own_backward(std::span<const at::Tensor> operands,
                                 std::span<const at::Tensor> results,
                                 std::span<const at::Tensor> gradients,
                                 std::span<const char> wanted) const {
    const at::NoGradGuard no_grad;
    Tensors found = taken(operands);
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].defined() || !known_[i].defined()) continue;
        const at::Device where = row_->reads_on_host(i) ? at::kCPU : device_;
        found[i] = known_[i].to(where, known_[i].scalar_type(), /*non_blocking=*/true);
    }
    Tensors given(gradients.begin(), gradients.end());
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (!given[i].defined()) continue;
        if (op_.results[i].weight != 1.0) given[i] = given[i] * op_.results[i].weight;
        if (op_.row_mask && i == 0) {
            given[i] = masked(given[i], operands[static_cast<std::size_t>(op_.row_mask->operand)]);
        }
    }
    BackwardCall call{call_of(found)};
    call.results = results;
    call.gradients = given;
    call.operand_shapes = shapes_;
    call.wanted = wanted;
    const bool is_given =
        std::ranges::any_of(given, [](const at::Tensor& g) { return g.defined(); });
    Tensors found_gradients = is_given ? row_->backward(call) : Tensors();
    found_gradients.resize(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] == 0) found_gradients[i] = at::Tensor();
    }
    return found_gradients;
}

Tensors PartKernel::backward(const Tape& tape, std::span<const at::Tensor> operands,
                             std::span<const at::Tensor> results,
                             std::span<const at::Tensor> gradients, std::span<const char> wanted,
                             bool keeps_tape) const {
    if (!needs_tape()) return own_backward(operands, results, gradients, wanted);
    Tensors outputs;
    Tensors given;
    for (std::size_t i = 0; i < tape.results.size(); ++i) {
        if (!tape.results[i].defined() || !tape.results[i].requires_grad()) continue;
        if (!gradients[i].defined()) continue;
        outputs.push_back(tape.results[i]);
        given.push_back(gradients[i]);
    }
    Tensors leaves;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (wanted[i] != 0) leaves.push_back(tape.operands[i]);
    }
    Tensors found(leaves.size());
    if (!outputs.empty() && !leaves.empty()) {
        found = torch::autograd::grad(outputs, leaves, given, /*retain_graph=*/keeps_tape,
                                      /*create_graph=*/false, /*allow_unused=*/true);
    }
    Tensors all(wanted.size());
    for (std::size_t i = 0, next = 0; i < wanted.size(); ++i) {
        if (wanted[i] != 0) all[i] = found[next++];
    }
    return all;
}

}  // namespace partita::runtime
