// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that depend on nothing but the op, its `seed` and the position of the element in
// the whole tensor: however the op is split, and on whichever device, an element gets the same
// number. Each run gets the same ones; without `seed` two ops of a model get different ones.
//
// Source: the output function of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), one step per dim.
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
#include "runtime/kernels/operands.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

/// Unsigned: zeros come in from the left.
at::Tensor shifted(const at::Tensor& bits, int by) {
    const std::int64_t kept = (std::int64_t{1} << (64 - by)) - 1;
    return at::bitwise_and(at::bitwise_right_shift(bits, by), kept);
}

at::Tensor mixed(at::Tensor bits) {
    bits = at::bitwise_xor(bits, shifted(bits, 30)) * static_cast<std::int64_t>(0xBF58476D1CE4E5B9);
    bits = at::bitwise_xor(bits, shifted(bits, 27)) * static_cast<std::int64_t>(0x94D049BB133111EB);
    return at::bitwise_xor(bits, shifted(bits, 31));
}

/// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
    std::uint64_t hash = 0xCBF29CE484222325;
    for (const char letter : text) {
        hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3;
    }
    return hash;
}

std::int64_t seed_of(const KernelCall& call) {
    const bool has_seed = call.op.attributes.find("seed") != nullptr;
    const double real = call.real("seed", 0.0);  // of Dropout an integer
    const std::uint64_t seed = has_seed ? static_cast<std::uint64_t>(std::llround(real * 65536)) +
                                              static_cast<std::uint64_t>(call.integer("seed", 0))
                                        : hash_of(call.op.name);
    return static_cast<std::int64_t>(seed);
}

at::Tensor positions_of(const graph::Positions& positions, const at::TensorOptions& options) {
    Tensors ranges{at::empty({0}, options)};
    for (const graph::Range& range : positions) {
        ranges.push_back(at::arange(range.begin, range.end, options));
    }
    return at::cat(ranges);
}

/// In [0, 1), float64: one number per element of the part's region of result 0.
at::Tensor uniform(const KernelCall& call, std::int64_t stream = 0) {
    constexpr auto kStep = static_cast<std::int64_t>(0x9E3779B97F4A7C15);
    const auto options = at::TensorOptions().dtype(at::kLong).device(call.device);
    at::Tensor bits = at::full({}, seed_of(call) ^ (stream * kStep), options);
    for (const graph::Positions& positions : call.op.results[0].region.dims) {
        bits = mixed(bits.unsqueeze(-1) + (positions_of(positions, options) + 1) * kStep);
    }
    return shifted(mixed(bits), 11).to(at::kDouble) * 0x1p-53;
}

// Box and Muller's: sqrt(-2 ln(1 - u)) cos(2 pi v).
at::Tensor normal(const KernelCall& call) {
    const at::Tensor radius = (-2 * at::log1p(-uniform(call))).sqrt();
    const at::Tensor angle = uniform(call, /*stream=*/1) * (2 * std::numbers::pi);
    return radius * at::cos(angle) * call.real("scale", 1.0) + call.real("mean", 0.0);
}

at::ScalarType type_of(const KernelCall& call, std::size_t result) {
    return held_type(call.op.results[result].dtype);
}

Tensors bernoulli(const KernelCall& call) {
    const at::Tensor is_one = uniform(call).lt(call.operand(0).to(at::kDouble));
    return {is_one.to(type_of(call, 0))};
}

Tensors random_normal(const KernelCall& call) {
    return {normal(call).to(type_of(call, 0))};
}

Tensors random_uniform(const KernelCall& call) {
    const double low = call.real("low", 0.0);
    const at::Tensor numbers = uniform(call) * (call.real("high", 1.0) - low);
    return {(numbers + low).to(type_of(call, 0))};
}

/// Of each row of logarithms of weights, by the inverse of its distribution function.
Tensors multinomial(const KernelCall& call) {
    const at::Tensor& logarithms = call.operand(0);
    const at::Tensor distribution = at::cumsum(at::softmax(logarithms.to(at::kDouble), 1), 1);
    const at::Tensor found = at::searchsorted(distribution, uniform(call), false, /*right=*/true);
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
    const at::Tensor kept = uniform(call).ge(ratio);
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
    const at::Tensor kept = uniform(call).ge(ratio);
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
