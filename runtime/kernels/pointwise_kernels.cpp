// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic element by element: functions of one operand, and of two that broadcast.
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

using UnaryFunction = at::Tensor (*)(const at::Tensor&);
template <UnaryFunction kFunction>
Tensors unary(const KernelCall& call) {
    return {kFunction(call.operand(0))};
}

using BinaryFunction = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
template <BinaryFunction kFunction>
Tensors binary(const KernelCall& call) {
    return {kFunction(call.operand(0), second_operand(call))};
}

at::Tensor add(const at::Tensor& a, const at::Tensor& b) {
    return at::add(a, b);
}
at::Tensor subtract(const at::Tensor& a, const at::Tensor& b) {
    return at::sub(a, b);
}

/// Where operand 0 is not a number, so is the sign.
at::Tensor sign(const at::Tensor& x) {
    return x.is_floating_point() ? at::where(x.isnan(), x, at::sign(x)) : at::sign(x);
}

/// Processors stop at the smallest integer divided by -1: -a instead, which wraps around like all
/// integers here.
at::Tensor divide_integers(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor is_negation = b.eq(-1);
    return at::where(is_negation, -a, at::div(a, b.masked_fill(is_negation, 1), "trunc"));
}

Tensors divide(const KernelCall& call) {
    const at::Tensor a = computable(call.operand(0));
    const at::Tensor b = computable(second_operand(call));
    if (a.is_floating_point() || a.is_complex()) {
        return {at::div(a, b).to(call.operand(0).scalar_type())};
    }
    const bool is_uint64 = call.operand(0).scalar_type() == at::kUInt64;
    const at::Tensor quotient = is_uint64 ? divide_unsigned(a, b) : divide_integers(a, b);
    return {quotient.to(call.operand(0).scalar_type())};
}

// fmod = 1: the sign of the dividend, as in C; otherwise the sign of the divisor.
Tensors modulo(const KernelCall& call) {
    const at::Tensor a = computable(call.operand(0));
    const at::Tensor b = computable(second_operand(call));
    const auto type = call.operand(0).scalar_type();
    if (type == at::kUInt64) return {(a - divide_unsigned(a, b) * b).to(type)};
    // Of integers, nothing is left by -1 as by 1.
    const at::Tensor by = a.is_floating_point() ? b : b.masked_fill(b.eq(-1), 1);
    return {(call.integer("fmod", 0) != 0 ? at::fmod(a, by) : at::remainder(a, by)).to(type)};
}

/// One exponent for all elements, a square most often, has kernels of its own.
at::Tensor power_of(const at::Tensor& base, const at::Tensor& exponent) {
    const bool is_number = exponent.numel() == 1 && exponent.dim() <= base.dim() &&
                           exponent.is_cpu() && !exponent.requires_grad();
    return is_number ? at::pow(base, exponent.item()) : at::pow(base, exponent);
}

/// The result has the type of the base, whatever that of the exponent.
Tensors power(const KernelCall& call) {
    const at::Tensor base = computable(call.operand(0));
    const at::Tensor exponent = computable(second_operand(call));
    return {power_of(base, exponent).to(call.operand(0).scalar_type())};
}

// Backward. What is read is what graph/operators/op_table.cpp says is saved.

Tensors negate_backward(const BackwardCall& call) {
    return {-call.gradients[0]};
}
Tensors exp_backward(const BackwardCall& call) {
    return {call.gradients[0] * call.results[0]};
}
Tensors sqrt_backward(const BackwardCall& call) {
    return {call.gradients[0] / (call.results[0] * 2)};
}
Tensors reciprocal_backward(const BackwardCall& call) {
    return {-call.gradients[0] * call.results[0] * call.results[0]};
}

Tensors add_backward(const BackwardCall& call) {
    return to_operands(call, [&](std::size_t) { return call.gradients[0]; });
}

Tensors subtract_backward(const BackwardCall& call) {
    return to_operands(
        call, [&](std::size_t i) { return i == 0 ? call.gradients[0] : -call.gradients[0]; });
}

Tensors multiply_backward(const BackwardCall& call) {
    return to_operands(call, [&](std::size_t i) {
        return call.gradients[0] * (i == 0 ? second_operand(call) : call.operand(0));
    });
}

Tensors divide_backward(const BackwardCall& call) {
    const at::Tensor b = second_operand(call);
    return to_operands(call, [&](std::size_t i) {
        const at::Tensor quotient = call.gradients[0] / b;
        return i == 0 ? quotient : -quotient * call.operand(0) / b;
    });
}

//     d(a^b)/da = b a^(b-1)       d(a^b)/db = a^b ln a, which is 0 for a = 0 and b >= 0
Tensors power_backward(const BackwardCall& call) {
    const at::Tensor& a = call.operand(0);
    const at::Tensor b = second_operand(call).to(a.scalar_type());
    return to_operands(call, [&](std::size_t i) {
        if (i == 0) return at::where(b.eq(0), 0, call.gradients[0] * b * power_of(a, b - 1));
        const at::Tensor change = power_of(a, b) * at::log(a);
        return call.gradients[0] * at::where(a.eq(0).logical_and(b.ge(0)), 0, change);
    });
}

}  // namespace

std::span<const KernelRow> pointwise_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Abs", .forward = widened<unary<at::abs>>},
        KernelRow{.type = "Acos", .forward = unary<at::acos>},
        KernelRow{.type = "Acosh", .forward = unary<at::acosh>},
        KernelRow{.type = "Add", .forward = widened<binary<add>>, .backward = add_backward},
        KernelRow{.type = "Asin", .forward = unary<at::asin>},
        KernelRow{.type = "Asinh", .forward = unary<at::asinh>},
        KernelRow{.type = "Atan", .forward = unary<at::atan>},
        KernelRow{.type = "Atanh", .forward = unary<at::atanh>},
        KernelRow{.type = "Ceil", .forward = unary<at::ceil>},
        KernelRow{.type = "Cos", .forward = unary<at::cos>},
        KernelRow{.type = "Cosh", .forward = unary<at::cosh>},
        KernelRow{.type = "Div", .forward = divide, .backward = divide_backward},
        KernelRow{.type = "Erf", .forward = unary<at::erf>},
        KernelRow{.type = "Exp", .forward = unary<at::exp>, .backward = exp_backward},
        KernelRow{.type = "Floor", .forward = unary<at::floor>},
        KernelRow{.type = "Log", .forward = unary<at::log>},
        KernelRow{.type = "Mod", .forward = modulo},
        KernelRow{
            .type = "Mul", .forward = widened<binary<at::mul>>, .backward = multiply_backward},
        KernelRow{.type = "Neg", .forward = unary<at::neg>, .backward = negate_backward},
        KernelRow{.type = "Pow", .forward = power, .backward = power_backward},
        KernelRow{.type = "Reciprocal",
                  .forward = unary<at::reciprocal>,
                  .backward = reciprocal_backward},
        KernelRow{.type = "Round", .forward = unary<at::round>},  // half to even
        KernelRow{.type = "Sign", .forward = widened<unary<sign>>},
        KernelRow{.type = "Sin", .forward = unary<at::sin>},
        KernelRow{.type = "Sinh", .forward = unary<at::sinh>},
        KernelRow{.type = "Sqrt", .forward = unary<at::sqrt>, .backward = sqrt_backward},
        KernelRow{
            .type = "Sub", .forward = widened<binary<subtract>>, .backward = subtract_backward},
        KernelRow{.type = "Tan", .forward = unary<at::tan>},
    };
    return kRows;
}

}  // namespace partita::runtime
