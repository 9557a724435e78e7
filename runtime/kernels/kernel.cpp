// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/kernel.h"

#include <utility>

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>

namespace partita::runtime {

const at::Tensor& KernelCall::operand(std::size_t index) const {
    static const at::Tensor kLeftOut;
    return index < operands.size() ? operands[index] : kLeftOut;
}

std::vector<std::int64_t> KernelCall::integers(std::size_t index) const {
    const at::Tensor& tensor = operand(index);
    if (!tensor.defined()) return {};
    const at::Tensor dense = tensor.detach().to(at::kCPU, at::kLong).contiguous();
    const auto* const begin = dense.const_data_ptr<std::int64_t>();
    return {begin, begin + dense.numel()};
}

std::vector<std::int64_t> KernelCall::integers_of(std::size_t operand,
                                                  std::string_view attribute) const {
    return has(operand) ? integers(operand) : op.attributes.get_ints(attribute);
}

at::Tensor KernelCall::sent(const at::Tensor& values) const {
    return values.to(device, values.scalar_type(), /*non_blocking=*/true);
}

at::Tensor unbroadcast(const at::Tensor& gradient, const graph::Shape& shape) {
    return at::sum_to(gradient, shape);
}

Tensors only_first(const BackwardCall& call, at::Tensor gradient) {
    Tensors gradients(call.operand_shapes.size());
    gradients.front() = std::move(gradient);
    return gradients;
}

}  // namespace partita::runtime
