// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/carried.h"

#include <optional>

#include <ATen/Functions.h>

namespace partita::runtime {

namespace {

std::optional<at::ScalarType> carrier_of(at::ScalarType type) {
    switch (type) {
    case at::kUInt16: return at::kShort;
    case at::kUInt32: return at::kInt;
    case at::kUInt64: return at::kLong;
    case at::kFloat8_e4m3fn:
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2:
    case at::kFloat8_e5m2fnuz:
    case at::kFloat8_e8m0fnu: return at::kChar;
    default: return std::nullopt;
    }
}

}  // namespace

Tensors carried(ForwardKernel kernel, const KernelCall& call) {
    if (!call.has(0) || !carrier_of(call.operand(0).scalar_type())) return kernel(call);
    const at::ScalarType type = call.operand(0).scalar_type();
    const at::ScalarType carrier = *carrier_of(type);
    Tensors operands(call.operands.begin(), call.operands.end());
    for (at::Tensor& operand : operands) {
        if (operand.defined() && operand.scalar_type() == type) operand = operand.view(carrier);
    }
    KernelCall as_integers = call;
    as_integers.operands = operands;
    Tensors results = kernel(as_integers);
    for (at::Tensor& result : results) {
        if (result.defined() && result.scalar_type() == carrier) result = result.view(type);
    }
    return results;
}

}  // namespace partita::runtime
