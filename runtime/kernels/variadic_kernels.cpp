// SPDX-License-Identifier: Apache-2.0
//
// Operators of any number of operands that broadcast: Sum, Mean, Max, Min.
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

at::Tensor sum_of(const KernelCall& call) {
    at::Tensor sum = call.operand(0);
    for (std::size_t i = 1; i < call.operands.size(); ++i) sum = at::add(sum, call.operand(i));
    return sum;
}

Tensors sum(const KernelCall& call) {
    return {sum_of(call)};
}
Tensors sum_backward(const BackwardCall& call) {
    return to_operands(call, [&](std::size_t) { return call.gradients[0]; });
}

Tensors mean(const KernelCall& call) {
    return {sum_of(call) / static_cast<double>(call.operands.size())};
}
Tensors mean_backward(const BackwardCall& call) {
    const auto share = 1.0 / static_cast<double>(call.operands.size());
    return to_operands(call, [&](std::size_t) { return call.gradients[0] * share; });
}

at::Tensor larger(const at::Tensor& a, const at::Tensor& b) {
    return at::maximum(a, b);
}
at::Tensor smaller(const at::Tensor& a, const at::Tensor& b) {
    return at::minimum(a, b);
}

/// Of integers in the order of the elements, then the elements themselves again.
using Choice = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
template <Choice kChoose>
Tensors extreme(const KernelCall& call) {
    const auto type = call.operand(0).scalar_type();
    at::Tensor result = ordered(call.operand(0));
    for (std::size_t i = 1; i < call.operands.size(); ++i) {
        result = kChoose(result, ordered(call.operand(i)));
    }
    if (type == at::kUInt64) result = from_ordered(result);
    return {result.to(type)};
}

}  // namespace

std::span<const KernelRow> variadic_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Max", .forward = extreme<larger>},
        KernelRow{.type = "Mean", .forward = mean, .backward = mean_backward},
        KernelRow{.type = "Min", .forward = extreme<smaller>},
        KernelRow{.type = "Sum", .forward = widened<sum>, .backward = sum_backward},
    };
    return kRows;
}

}  // namespace partita::runtime
