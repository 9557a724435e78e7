// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/elements.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::DType;

namespace {

constexpr std::int64_t kSignBit = std::numeric_limits<std::int64_t>::min();

bool is_signed_integer(DType dtype) {
    return dtype == DType::int2 || dtype == DType::int4 || dtype == DType::int8 ||
           dtype == DType::int16 || dtype == DType::int32 || dtype == DType::int64;
}

/// The largest finite number of a floating-point type.
double highest_float(DType dtype) {
    switch (dtype) {
    case DType::float8e4m3fn: return 448;
    case DType::float8e4m3fnuz: return 240;
    case DType::float8e5m2:
    case DType::float8e5m2fnuz: return 57344;
    case DType::float16: return 65504;
    case DType::bfloat16: return std::ldexp(255.0, 120);
    case DType::float32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
    }
}

}  // namespace

at::ScalarType held_type(DType dtype) {
    const auto type = scalar_type_of(dtype);
    if (!type) {
        throw std::runtime_error("elements of type " + std::string(graph::name_of(dtype)) +
                                 " cannot be computed with");
    }
    return *type;
}

at::ScalarType computable_type(at::ScalarType type) {
    if (type == at::kUInt16 || type == at::kUInt32 || type == at::kUInt64) return at::kLong;
    return at::isFloat8Type(type) ? at::kFloat : type;
}

at::Tensor computable(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(computable_type(tensor.scalar_type())) : tensor;
}

Tensors run_widened(ForwardKernel kernel, const KernelCall& call) {
    const bool is_needed = std::ranges::any_of(call.operands, [](const at::Tensor& operand) {
        return operand.defined() && computable_type(operand.scalar_type()) != operand.scalar_type();
    });
    if (!is_needed) return kernel(call);
    Tensors operands;
    for (const at::Tensor& operand : call.operands) operands.push_back(computable(operand));
    KernelCall wide = call;
    wide.operands = operands;
    Tensors results = kernel(wide);
    for (at::Tensor& result : results) {
        if (result.defined()) result = result.to(call.operands[0].scalar_type());
    }
    return results;
}

at::Tensor ordered(const at::Tensor& tensor) {
    const at::Tensor held = computable(tensor);
    return tensor.scalar_type() == at::kUInt64 ? at::bitwise_xor(held, kSignBit) : held;
}

at::Tensor from_ordered(const at::Tensor& tensor) {
    return at::bitwise_xor(tensor, kSignBit).to(at::kUInt64);
}

// Half of a, which is not negative, divided by b, twice; what remains may hold b once more. A
// divisor above 2^63 is held as a negative number: the quotient is 0 or 1.
at::Tensor divide_unsigned(const at::Tensor& a, const at::Tensor& b) {
    const auto at_least = [](const at::Tensor& x, const at::Tensor& y) {
        return at::bitwise_xor(x, kSignBit).ge(at::bitwise_xor(y, kSignBit));
    };
    const at::Tensor one = at::ones({}, b.options());
    const at::Tensor divisor = at::where(b.lt(0), one, b);
    const at::Tensor half = at::div(shift_right_unsigned(a, one), divisor, "trunc") * 2;
    const at::Tensor quotient = half + at_least(a - half * divisor, divisor).to(at::kLong);
    return at::where(b.lt(0), at_least(a, b).to(at::kLong), quotient);
}

// The sign is copied into the bits that become free: clear them.
at::Tensor shift_right_unsigned(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor shifted = at::bitwise_right_shift(a, b);
    const at::Tensor ones = at::full({}, -1, b.options());
    const at::Tensor kept = at::bitwise_left_shift(ones, 64 - b).bitwise_not();
    return at::where(b.eq(0), a, at::bitwise_and(shifted, kept));
}

double lowest_of(DType dtype) {
    if (graph::is_floating_point(dtype)) return -highest_float(dtype);
    return is_signed_integer(dtype) ? -std::ldexp(1.0, graph::bits_of(dtype) - 1) : 0.0;
}

double highest_of(DType dtype) {
    if (graph::is_floating_point(dtype)) return highest_float(dtype);
    if (dtype == DType::boolean) return 1.0;
    const int bits = graph::bits_of(dtype) - (is_signed_integer(dtype) ? 1 : 0);
    return std::ldexp(1.0, bits) - 1.0;
}

at::Tensor saturated(const at::Tensor& numbers, DType dtype) {
    const at::ScalarType type = held_type(dtype);
    if (graph::is_floating_point(dtype)) {
        return numbers.clamp(lowest_of(dtype), highest_of(dtype)).to(type);
    }
    return at::round(numbers).clamp(lowest_of(dtype), highest_of(dtype)).to(type);
}

}  // namespace partita::runtime
