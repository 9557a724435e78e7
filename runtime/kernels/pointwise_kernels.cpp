// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <ATen/Functions.h>

#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

using UnaryFunction = at::Tensor (*)(const at::Tensor&);
template <UnaryFunction kFunction>
Tensors unary(const KernelCall& call) {
    return {kFunction(call.operand(0))};
}

Tensors relu_backward(const BackwardCall& call) {
    return {at::threshold_backward(call.gradients[0], call.results[0], 0)};
}

}  // namespace

std::span<const KernelRow> pointwise_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Abs", .forward = unary<at::abs>},
        KernelRow{.type = "Relu", .forward = unary<at::relu>, .backward = relu_backward},
    };
    return kRows;
}

}  // namespace partita::runtime
