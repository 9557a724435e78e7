// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/random_numbers.h"

#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace partita::runtime {

namespace {

constexpr auto kStep = static_cast<std::int64_t>(0x9E3779B97F4A7C15);

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

at::TensorOptions options_of(const KernelCall& call) {
    return at::TensorOptions().dtype(at::kLong).device(call.device);
}

}  // namespace

std::int64_t seed_of(const KernelCall& call, std::string_view name) {
    const bool has_seed = call.op.attributes.find("seed") != nullptr;
    const double real = call.real("seed", 0.0);  // of Dropout an integer
    const std::uint64_t seed = has_seed ? static_cast<std::uint64_t>(std::llround(real * 65536)) +
                                              static_cast<std::uint64_t>(call.integer("seed", 0))
                                        : hash_of(name);
    return static_cast<std::int64_t>(seed);
}

at::Tensor random_bits(const KernelCall& call, std::int64_t seed) {
    return at::full({}, seed, options_of(call));
}

at::Tensor positions_of(const KernelCall& call, const graph::Positions& positions) {
    Tensors ranges{at::empty({0}, options_of(call))};
    for (const graph::Range& range : positions) {
        ranges.push_back(at::arange(range.begin, range.end, options_of(call)));
    }
    return at::cat(ranges);
}

at::Tensor with_dim(const at::Tensor& bits, const at::Tensor& positions) {
    return mixed(bits + (positions + 1) * kStep);
}

at::Tensor as_uniform(const at::Tensor& bits) {
    return shifted(mixed(bits), 11).to(at::kDouble) * 0x1p-53;
}

at::Tensor uniform_numbers(const KernelCall& call, std::int64_t stream) {
    at::Tensor bits = random_bits(call, seed_of(call, call.op.name) ^ (stream * kStep));
    for (const graph::Positions& positions : call.op.results[0].region.dims) {
        bits = with_dim(bits.unsqueeze(-1), positions_of(call, positions));
    }
    return as_uniform(bits);
}

}  // namespace partita::runtime
