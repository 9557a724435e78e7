// SPDX-License-Identifier: Apache-2.0
//
// Comparisons, logic, bits, tests of numbers, and choices by them. Nothing here but Where and Clip
// has a gradient.
#include <array>
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

using BinaryFunction = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

template <BinaryFunction kFunction>
Tensors compare(const KernelCall& call) {
    return {kFunction(ordered(call.operand(0)), ordered(second_operand(call)))};
}
template <BinaryFunction kFunction>
Tensors logical(const KernelCall& call) {
    return {kFunction(call.operand(0), second_operand(call))};
}

Tensors logical_not(const KernelCall& call) {
    return {at::logical_not(call.operand(0))};
}
Tensors bitwise_not(const KernelCall& call) {
    return {at::bitwise_not(call.operand(0))};
}

at::Tensor shifted_right(const at::Tensor& bits, const at::Tensor& by, bool is_uint64) {
    constexpr std::int64_t kMost = 63;  // leaves nothing but the sign
    if (!is_uint64) return at::bitwise_right_shift(bits, by.clamp_max(kMost));
    return at::where(by.gt(kMost), 0, shift_right_unsigned(bits, by));
}

/// All bits may be shifted out: that leaves 0, or the sign.
Tensors bit_shift(const KernelCall& call) {
    const auto type = call.operand(0).scalar_type();
    const at::Tensor bits = call.operand(0).to(at::kLong);
    const at::Tensor by = second_operand(call).to(at::kLong);
    if (call.text("direction", "LEFT") != "LEFT") {
        return {shifted_right(bits, by, type == at::kUInt64).to(type)};
    }
    const auto width = static_cast<std::int64_t>(c10::elementSize(type)) * 8;
    return {at::where(by.ge(width), 0, at::bitwise_left_shift(bits, by)).to(type)};
}

Tensors is_infinite(const KernelCall& call) {
    const at::Tensor x = computable(call.operand(0));
    const at::Tensor positive = at::isposinf(x);
    const at::Tensor negative = at::isneginf(x);
    if (call.integer("detect_positive", 1) == 0) {
        return {call.integer("detect_negative", 1) == 0 ? at::zeros_like(negative) : negative};
    }
    return {call.integer("detect_negative", 1) == 0 ? positive : positive.logical_or(negative)};
}

Tensors is_nan(const KernelCall& call) {
    return {at::isnan(computable(call.operand(0)))};
}

Tensors choose(const KernelCall& call) {
    const at::Tensor chosen =
        at::where(call.operand(0), computable(call.operand(1)), computable(call.operand(2)));
    return {chosen.to(call.operand(1).scalar_type())};
}

Tensors where_backward(const BackwardCall& call) {
    const at::Tensor& condition = call.operand(0);
    return to_operands(call, [&](std::size_t i) {
        return at::where(i == 1 ? condition : condition.logical_not(), call.gradients[0], 0);
    });
}

/// Bounds are attributes before opset 11. Both may be left out; where they cross, the upper one
/// holds.
Tensors clip(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    std::optional<at::Tensor> lower;
    std::optional<at::Tensor> upper;
    if (call.has(1)) lower = call.operand(1);
    if (call.has(2)) upper = call.operand(2);
    if (call.op.attributes.find("min") != nullptr) {
        lower = at::scalar_tensor(call.real("min", 0), x.options());
    }
    if (call.op.attributes.find("max") != nullptr) {
        upper = at::scalar_tensor(call.real("max", 0), x.options());
    }
    return {lower || upper ? at::clamp(x, lower, upper) : x};
}

at::Tensor equal(const at::Tensor& a, const at::Tensor& b) {
    return at::eq(a, b);
}
at::Tensor greater(const at::Tensor& a, const at::Tensor& b) {
    return at::gt(a, b);
}
at::Tensor greater_or_equal(const at::Tensor& a, const at::Tensor& b) {
    return at::ge(a, b);
}
at::Tensor less(const at::Tensor& a, const at::Tensor& b) {
    return at::lt(a, b);
}
at::Tensor less_or_equal(const at::Tensor& a, const at::Tensor& b) {
    return at::le(a, b);
}
at::Tensor bitwise_and(const at::Tensor& a, const at::Tensor& b) {
    return at::bitwise_and(a, b);
}
at::Tensor bitwise_or(const at::Tensor& a, const at::Tensor& b) {
    return at::bitwise_or(a, b);
}
at::Tensor bitwise_xor(const at::Tensor& a, const at::Tensor& b) {
    return at::bitwise_xor(a, b);
}

}  // namespace

std::span<const KernelRow> logic_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "And", .forward = logical<at::logical_and>},
        KernelRow{.type = "BitShift", .forward = bit_shift},
        KernelRow{.type = "BitwiseAnd", .forward = widened<logical<bitwise_and>>},
        KernelRow{.type = "BitwiseNot", .forward = widened<bitwise_not>},
        KernelRow{.type = "BitwiseOr", .forward = widened<logical<bitwise_or>>},
        KernelRow{.type = "BitwiseXor", .forward = widened<logical<bitwise_xor>>},
        KernelRow{.type = "Clip", .forward = widened<clip>},
        KernelRow{.type = "Equal", .forward = compare<equal>},
        KernelRow{.type = "Greater", .forward = compare<greater>},
        KernelRow{.type = "GreaterOrEqual", .forward = compare<greater_or_equal>},
        KernelRow{.type = "IsInf", .forward = is_infinite},
        KernelRow{.type = "IsNaN", .forward = is_nan},
        KernelRow{.type = "Less", .forward = compare<less>},
        KernelRow{.type = "LessOrEqual", .forward = compare<less_or_equal>},
        KernelRow{.type = "Not", .forward = logical_not},
        KernelRow{.type = "Or", .forward = logical<at::logical_or>},
        KernelRow{.type = "Where", .forward = choose, .backward = where_backward},
        KernelRow{.type = "Xor", .forward = logical<at::logical_xor>},
    };
    return kRows;
}

}  // namespace partita::runtime
