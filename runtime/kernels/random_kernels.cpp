// SPDX-License-Identifier: Apache-2.0
//
// Ops that draw, by random_numbers.h.
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string_view>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/random_numbers.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

// Box and Muller's: sqrt(-2 ln(1 - u)) cos(2 pi v).
at::Tensor normal(const KernelCall& call) {
    const at::Tensor radius = (-2 * at::log1p(-uniform_numbers(call))).sqrt();
    const at::Tensor angle = uniform_numbers(call, /*stream=*/1) * (2 * std::numbers::pi);
    return radius * at::cos(angle) * call.real("scale", 1.0) + call.real("mean", 0.0);
}

at::ScalarType type_of(const KernelCall& call, std::size_t result) {
    return held_type(call.op.results[result].dtype);
}

Tensors bernoulli(const KernelCall& call) {
    const at::Tensor is_one = uniform_numbers(call).lt(call.operand(0).to(at::kDouble));
    return {is_one.to(type_of(call, 0))};
}

Tensors random_normal(const KernelCall& call) {
    return {normal(call).to(type_of(call, 0))};
}

Tensors random_uniform(const KernelCall& call) {
    const double low = call.real("low", 0.0);
    const at::Tensor numbers = uniform_numbers(call) * (call.real("high", 1.0) - low);
    return {(numbers + low).to(type_of(call, 0))};
}

/// Of each row of logarithms of weights, by the inverse of its distribution function.
Tensors multinomial(const KernelCall& call) {
    const at::Tensor& logarithms = call.operand(0);
    const at::Tensor distribution = at::cumsum(at::softmax(logarithms.to(at::kDouble), 1), 1);
    const at::Tensor found =
        at::searchsorted(distribution, uniform_numbers(call), false, /*right=*/true);
    return {at::clamp_max(found, logarithms.size(1) - 1).to(type_of(call, 0))};
}

// Dropout: nothing happens in inference. Before opset 7 attribute is_test said so, from 12 on
// operand 2 says the opposite; in between it always is inference.

double dropout_ratio(const KernelCall& call) {
    return call.has(1) ? call.operand(1).item<double>() : call.real("ratio", 0.5);
}

bool drops(const KernelCall& call) {
    if (call.op.opset < 7) return call.integer("is_test", 0) == 0;
    return call.has(2) && call.operand(2).item<bool>() && dropout_ratio(call) > 0;
}

Tensors dropout(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const bool has_mask = call.op.results.size() > 1 && call.op.results[1].is_wanted;
    if (!drops(call)) {
        if (!has_mask) return {x};
        return {x, at::ones_like(x, x.options().dtype(type_of(call, 1)))};
    }
    const double ratio = dropout_ratio(call);
    const at::Tensor kept = uniform_numbers(call).ge(ratio);
    const at::Tensor y = at::where(kept, x / (1 - ratio), 0);
    if (!has_mask) return {y};
    return {y, kept.to(type_of(call, 1))};
}

/// Which elements were kept comes out again as it did before.
Tensors dropout_backward(const BackwardCall& call) {
    const at::Tensor& gradient = call.gradients[0];
    Tensors gradients(call.wanted.size());
    if (!call.wants(0)) return gradients;
    gradients[0] = gradient;
    if (!drops(call)) return gradients;
    const double ratio = dropout_ratio(call);
    const at::Tensor kept = uniform_numbers(call).ge(ratio);
    gradients[0] = at::where(kept, gradient / (1 - ratio), 0);
    return gradients;
}

}  // namespace

std::span<const KernelRow> random_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Bernoulli", .forward = bernoulli},
        KernelRow{.type = "Dropout",
                  .forward = dropout,
                  .backward = dropout_backward,
                  .on_host = bits({1, 2}),
                  .expects = ", one, one"},
        KernelRow{.type = "Multinomial", .forward = multinomial},
        KernelRow{.type = "RandomNormal", .forward = random_normal},
        KernelRow{.type = "RandomNormalLike", .forward = random_normal},
        KernelRow{.type = "RandomUniform", .forward = random_uniform},
        KernelRow{.type = "RandomUniformLike", .forward = random_uniform},
    };
    return kRows;
}

}  // namespace partita::runtime
