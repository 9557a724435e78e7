// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/gpu_rules.h"

#include <algorithm>
#include <array>
#include <string>

#include <c10/util/Exception.h>

namespace partita::runtime {

namespace {

/// The extents of their results depend on elements, or they give one to the host.
constexpr std::array<std::string_view, 8> kWaiting = {
    "aten::_local_scalar_dense", "aten::_unique2", "aten::bincount",          "aten::equal",
    "aten::masked_select",       "aten::nonzero",  "aten::repeat_interleave", "aten::unique_dim"};

/// ATen's pointwise CUDA kernels, which take a number of the CPU as an argument.
constexpr std::string_view kTakesNumbers =
    " add addcdiv addcmul atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift "
    "bitwise_xor div eq fill fmod ge gt le logical_and logical_or logical_xor lt masked_fill "
    "maximum minimum mul ne pow remainder sub ";

bool takes_numbers(std::string_view name) {
    name.remove_prefix(name.find("::") + 2);
    if (name.ends_with('_')) name.remove_suffix(1);  // in place
    return kTakesNumbers.find(" " + std::string(name) + " ") != std::string_view::npos;
}

using Types = std::span<const at::ScalarType>;

bool has_integers(Types types) {
    return at::isIntegralType(types[0], /*includeBool=*/true);
}
bool has_wide_unsigned(Types types) {
    return at::isBarebonesUnsignedType(types[0]);
}
/// Gradient, x, weight, mean, inverse deviation: the last two are of the type that sums are.
bool has_short_statistics(Types types) {
    return c10::isReducedFloatingType(types.back());
}

/// What ATen's CUDA kernels have not.
struct Lacking {
    std::string_view name;
    bool (*lacks)(Types operands);
};
// Source: the dispatch macros in Blas.cpp, LinearAlgebra.cu, DilatedMaxPool2d.cu,
// DilatedMaxPool3d.cu, SortStable.cu, Normalization.cuh.
constexpr std::array kLacking = {
    Lacking{"aten::addmm", has_integers},
    Lacking{"aten::addmv", has_integers},
    Lacking{"aten::baddbmm", has_integers},
    Lacking{"aten::bmm", has_integers},
    Lacking{"aten::dot", has_integers},
    Lacking{"aten::max_pool2d_with_indices", has_integers},
    Lacking{"aten::max_pool3d_with_indices", has_integers},
    Lacking{"aten::mm", has_integers},
    Lacking{"aten::native_batch_norm_backward", has_short_statistics},
    Lacking{"aten::sort", has_wide_unsigned},
};

}  // namespace

bool waits_on_gpus(std::string_view name) {
    return std::ranges::find(kWaiting, name) != kWaiting.end();
}

void check_device(std::string_view name, const at::Tensor& tensor, at::Device device) {
    if (!tensor.defined() || tensor.device() == device) return;
    const bool is_number = tensor.is_cpu() && tensor.dim() == 0 && takes_numbers(name);
    TORCH_CHECK(is_number, name, ": one tensor on ", device, ", another of ", tensor.dim(),
                " dims on ", tensor.device());
}

void check_types(std::string_view name, Types types) {
    const auto* const row = std::ranges::find(kLacking, name, &Lacking::name);
    TORCH_CHECK(row == kLacking.end() || !row->lacks(types), name,
                ": not on CUDA for elements of type ", types[0]);
}

}  // namespace partita::runtime
