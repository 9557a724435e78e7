// SPDX-License-Identifier: Apache-2.0
//
// Conversions between element types. To an 8-bit float: `saturate` = 1 ends at the largest finite
// number, 0 gives the type's infinity or NaN, as ATen's own conversion does.
#include <array>
#include <cmath>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::DType;

namespace {

at::ScalarType type_of_result(const KernelCall& call) {
    return held_type(call.op.results[0].dtype);
}

/// Integers of 2 or 4 bits, which lie in 8: the low bits of the number, the sign extended.
at::Tensor wrapped(const at::Tensor& numbers, DType dtype) {
    const double count = std::ldexp(1.0, graph::bits_of(dtype));
    const double lowest = lowest_of(dtype);
    return at::remainder(at::trunc(numbers.to(at::kDouble)) - lowest, count) + lowest;
}

/// A power of two; `round_mode` says which one of its neighbours a number becomes.
at::Tensor to_exponent(const at::Tensor& numbers, const std::string& mode) {
    constexpr double kHighest = 0x1p127;
    constexpr double kLowest = 0x1p-127;
    const at::Tensor x = numbers.to(at::kDouble).abs();
    const at::Tensor down = at::exp2(at::floor(at::log2(x)));
    at::Tensor power = down;
    if (mode == "up") power = at::where(x.gt(down), down * 2, down);
    if (mode == "nearest") power = at::where(x.ge(down * 1.5), down * 2, down);
    return at::clamp(power, kLowest, kHighest).to(at::kFloat);
}

at::Tensor converted(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const DType dtype = call.op.results[0].dtype;
    const auto type = type_of_result(call);
    if (graph::bits_of(dtype) < 8) return wrapped(computable(x), dtype).to(type);
    if (dtype == DType::float8e8m0) {
        return to_exponent(computable(x), call.text("round_mode", "up")).to(type);
    }
    if (at::isFloat8Type(type)) {
        const at::Tensor number = computable(x).to(at::kFloat);
        return call.integer("saturate", 1) != 0 ? saturated(number, dtype) : number.to(type);
    }
    return x.to(type);
}

Tensors cast(const KernelCall& call) {
    return {converted(call)};
}

/// Of the operand's type again; its elements are not read.
Tensors cast_backward(const BackwardCall& call) {
    Tensors gradients(call.wanted.size());
    const auto type = scalar_type_of(call.op.operands[0].dtype);
    if (call.wants(0)) gradients[0] = call.gradients[0].to(*type);
    return gradients;
}

Tensors bit_cast(const KernelCall& call) {
    return {call.operand(0).contiguous().view(type_of_result(call))};
}

Tensors identity(const KernelCall& call) {
    return {call.operand(0)};
}
Tensors identity_backward(const BackwardCall& call) {
    return {call.gradients[0]};
}

}  // namespace

std::span<const KernelRow> cast_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "BitCast", .forward = bit_cast},
        KernelRow{.type = "Cast", .forward = cast, .backward = cast_backward},
        KernelRow{.type = "CastLike", .forward = cast, .backward = cast_backward},
        KernelRow{.type = "Identity", .forward = identity, .backward = identity_backward},
    };
    return kRows;
}

}  // namespace partita::runtime
