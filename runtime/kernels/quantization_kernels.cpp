// SPDX-License-Identifier: Apache-2.0
//
// Numbers as integers or 8-bit floats with a scale and a zero point: one for the whole tensor, one
// per position along an axis, or one per block of positions.
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::DType;

namespace {

/// A scale or zero point, so that it broadcasts to x.
at::Tensor laid_out(const KernelCall& call, const at::Tensor& parameter) {
    const at::Tensor& x = call.operand(0);
    const at::Tensor numbers = computable(parameter);
    if (numbers.numel() == 1 && numbers.dim() <= 1) return numbers.reshape({});
    expect(x.dim() > 0, "operand 1: expected one scale for operand 0, which has no dims");
    const std::int64_t axis = from_front(call.integer("axis", 1), x.dim());
    if (numbers.dim() == 1) {
        graph::Shape shape(static_cast<std::size_t>(x.dim()), 1);
        shape[static_cast<std::size_t>(axis)] = -1;
        return numbers.reshape(shape);
    }
    // Blocks; the last one may be shorter.
    const std::int64_t given = call.integer("block_size", 0);
    const std::int64_t blocks = numbers.size(axis);
    expect(blocks > 0, "operand 1: expected a scale for each block");
    const std::int64_t size = given > 0 ? given : (x.size(axis) + blocks - 1) / blocks;
    return numbers.repeat_interleave(size, axis).narrow(axis, 0, x.size(axis));
}

Tensors quantize(const KernelCall& call) {
    const DType dtype = call.op.results[0].dtype;
    const at::Tensor x = computable(call.operand(0));
    const at::Tensor scale = laid_out(call, call.operand(1));
    // The quotient has the precision of its operands, which decides how halves round.
    const at::Tensor quotient = x / scale.to(x.scalar_type());
    if (graph::is_floating_point(dtype)) {
        at::Tensor numbers = quotient.to(at::kFloat);
        if (call.has(2)) numbers = numbers + laid_out(call, call.operand(2));
        if (call.integer("saturate", 1) != 0) return {saturated(numbers, dtype)};
        return {numbers.to(held_type(dtype))};
    }
    at::Tensor rounded = at::round(quotient.to(at::kDouble));
    if (call.has(2)) rounded = rounded + laid_out(call, call.operand(2));
    return {saturated(rounded, dtype)};
}

Tensors dequantize(const KernelCall& call) {
    const at::ScalarType type = held_type(call.op.results[0].dtype);
    at::Tensor x = computable(call.operand(0));
    if (!x.is_floating_point()) x = x.to(at::kLong);
    if (call.has(2)) x = x - laid_out(call, call.operand(2));
    return {(x.to(at::kFloat) * laid_out(call, call.operand(1)).to(at::kFloat)).to(type)};
}

// To uint8, with the range of x and 0.
Tensors dynamic_quantize(const KernelCall& call) {
    constexpr double kHighest = 255;
    const at::Tensor& x = call.operand(0);
    const at::Tensor lowest = at::clamp_max(x.min(), 0);
    const at::Tensor highest = at::clamp_min(x.max(), 0);
    const at::Tensor scale = (highest - lowest) / kHighest;
    const at::Tensor zero_point = at::round(at::clamp(-lowest / scale, 0, kHighest));
    const at::Tensor rounded = at::round(x / scale) + zero_point;
    return {saturated(rounded, DType::uint8), scale, zero_point.to(at::kByte)};
}

}  // namespace

std::span<const KernelRow> quantization_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "DequantizeLinear", .forward = dequantize},
        KernelRow{.type = "DynamicQuantizeLinear", .forward = dynamic_quantize},
        KernelRow{.type = "QuantizeLinear", .forward = quantize},
    };
    return kRows;
}

}  // namespace partita::runtime
