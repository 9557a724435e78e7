// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/combine.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace partita::runtime {
namespace {

constexpr std::int64_t kBlock =
    16'384;  // below at::internal::GRAIN_SIZE, so ATen starts no threads
constexpr std::int64_t kSignBit = std::numeric_limits<std::int64_t>::min();

// Unsigned numbers of 64 bits order like signed ones once the top bit is turned round.
bool turns_sign_bit(at::ScalarType type, graph::Combine how) {
    return type == at::kUInt64 && (how == graph::Combine::max || how == graph::Combine::min);
}

// In the type of accumulation, on that device; the tensor itself if it is so already.
at::Tensor widened(const at::Tensor& tensor, graph::Combine how, at::Device device) {
    const at::ScalarType type = tensor.scalar_type();
    at::Tensor flat = tensor.view(-1);
    if (type == at::kUInt64) flat = flat.view(at::kLong);
    flat = flat.to(device, accumulation_type(type));
    return turns_sign_bit(type, how) ? flat.bitwise_xor(kSignBit) : flat;
}

}  // namespace

at::ScalarType accumulation_type(at::ScalarType type) {
    if (type == at::kComplexHalf) return at::kComplexFloat;
    if (type == at::kUInt16) return at::kInt;
    if (type == at::kUInt32 || type == at::kUInt64) return at::kLong;
    return c10::isReducedFloatingType(type) ? at::kFloat : type;
}

at::Tensor start_combining(const at::Tensor& first, graph::Combine how, at::Device device) {
    const at::Tensor sum = widened(first, how, device);
    return sum.const_data_ptr() == first.const_data_ptr() ? sum.clone() : sum;
}

void combine_with(const at::Tensor& sum, const at::Tensor& part, graph::Combine how) {
    const at::Tensor value = widened(part, how, sum.device());
    at::Tensor result = sum;
    switch (how) {
    case graph::Combine::sum: result.add_(value); return;
    case graph::Combine::product: result.mul_(value); return;
    case graph::Combine::max: at::maximum_out(result, sum, value); return;
    case graph::Combine::min: at::minimum_out(result, sum, value); return;
    case graph::Combine::log_sum_exp: at::logaddexp_out(result, sum, value); return;
    case graph::Combine::none: break;
    }
    assert(false && "nothing says how these values combine");
}

void finish_combining(const at::Tensor& into, const at::Tensor& sum, graph::Combine how) {
    const bool turned = turns_sign_bit(into.scalar_type(), how);
    const at::Tensor result = turned ? sum.bitwise_xor(kSignBit) : sum;
    if (into.scalar_type() == at::kUInt64) return copy_tensor(into, result.view(at::kUInt64));
    copy_tensor(into, result);
}

void combine(std::span<const at::Tensor> into, std::span<const at::Tensor> parts,
             graph::Combine how) {
    assert(!into.empty() && !parts.empty());
    const at::NoGradGuard no_grad;
    const at::Device device = into.front().device();
    const std::int64_t count = parts.front().numel();
    const std::int64_t block = device.is_cpu() ? kBlock : std::max<std::int64_t>(count, 1);
    for (std::int64_t begin = 0; begin < count; begin += block) {
        const std::int64_t length = std::min(block, count - begin);
        const at::Tensor sum = start_combining(parts.front().narrow(0, begin, length), how, device);
        for (const at::Tensor& part : parts.subspan(1)) {
            combine_with(sum, part.narrow(0, begin, length), how);
        }
        for (const at::Tensor& result : into) {
            finish_combining(result.narrow(0, begin, length), sum, how);
        }
    }
}

void copy_tensor(const at::Tensor& to, const at::Tensor& from) {
    assert(to.numel() == from.numel() && to.is_contiguous() && from.is_contiguous());
    if (to.numel() == 0 || to.const_data_ptr() == from.const_data_ptr()) return;
    if (to.scalar_type() == from.scalar_type() && to.is_cpu() && from.is_cpu()) {
        std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());  // ATen's copy may start threads
        return;
    }
    const at::NoGradGuard no_grad;
    to.view(-1).copy_(from.view(-1));
}

}  // namespace partita::runtime
