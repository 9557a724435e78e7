// SPDX-License-Identifier: Apache-2.0
//
// Tensors made of extents and positions.
#include <algorithm>
#include <array>
#include <variant>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/WrapDimMinimal.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

using Ints = std::vector<std::int64_t>;

at::ScalarType result_type(const KernelCall& call) {
    return scalar_type_of(call.op.results[0].dtype).value_or(at::kFloat);
}

Tensors shape(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const Ints sizes = data.sizes().vec();
    const auto rank = static_cast<std::int64_t>(sizes.size());
    const auto position = [rank](std::int64_t at) {
        return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t begin = position(call.integer("start", 0));
    const std::int64_t end = std::max(begin, position(call.integer("end", rank)));
    return {call.sent(at::tensor(Ints(sizes.begin() + begin, sizes.begin() + end), at::kLong))};
}

Tensors size(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    return {at::scalar_tensor(data.numel(), data.options().dtype(at::kLong))};
}

Tensors constant_of_shape(const KernelCall& call) {
    // One element, which the importer keeps as a number.
    const graph::AttributeValue* value = call.op.attributes.find("value");
    const bool is_integer = value != nullptr && std::holds_alternative<std::int64_t>(*value);
    const at::Scalar filling =
        is_integer ? at::Scalar(call.integer("value", 0)) : at::Scalar(call.real("value", 0.0));
    return {at::full(call.integers_of(0, "shape"), filling,
                     at::TensorOptions().dtype(result_type(call)).device(call.device))};
}

Tensors range(const KernelCall& call) {
    const at::Tensor& start = call.operand(0);
    return {at::arange(start.item(), call.operand(1).item(), call.operand(2).item(),
                       start.options().device(call.device))};
}

Tensors eye_like(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const auto options = data.options().dtype(at::kLong);
    const at::Tensor rows = at::arange(data.size(0), options).unsqueeze(1);
    const at::Tensor columns = at::arange(data.size(1), options);
    return {(rows + call.integer("k", 0)).eq(columns).to(result_type(call))};
}

Tensors non_zero(const KernelCall& call) {
    return {at::nonzero(at::atleast_1d(call.operand(0))).t()};
}

// Rows of equal elements are numbered by their first appearance where they are not sorted.
Tensors unique(const KernelCall& call) {
    const bool has_axis = call.op.attributes.find("axis") != nullptr;
    const at::Tensor data = has_axis ? call.operand(0) : call.operand(0).reshape(-1);
    const std::int64_t axis =
        has_axis ? c10::maybe_wrap_dim(call.integer("axis", 0), data.dim()) : 0;
    auto [values, inverse, counts] =
        at::unique_dim(data, axis, /*sorted=*/true,
                       /*return_inverse=*/true, /*return_counts=*/true);
    const at::Tensor positions = at::arange(data.size(axis), inverse.options());
    at::Tensor firsts = at::scatter_reduce(at::full_like(counts, data.size(axis)), 0, inverse,
                                           positions, "amin", /*include_self=*/true);
    if (call.integer("sorted", 1) == 0) {
        const at::Tensor order = at::argsort(firsts);
        values = values.index_select(axis, order);
        firsts = firsts.index_select(0, order);
        counts = counts.index_select(0, order);
        inverse = at::argsort(order).index_select(0, inverse);
    }
    return {values, firsts, inverse, counts};
}

// Indices from -depth on count from the end; others outside of the classes are off everywhere.
Tensors one_hot(const KernelCall& call) {
    const std::int64_t depth = call.integers(1).front();
    const at::Tensor& values = call.operand(2);
    const at::Tensor given = call.operand(0).to(at::kLong);
    const std::int64_t rank = given.dim() + 1;
    const std::int64_t axis = c10::maybe_wrap_dim(call.integer("axis", -1), rank);
    const at::Tensor indices = at::where(given < 0, given + depth, given).unsqueeze(axis);
    Ints along(static_cast<std::size_t>(rank), 1);
    along[static_cast<std::size_t>(axis)] = depth;
    const at::Tensor classes = at::arange(depth, given.options()).reshape(along);
    return {at::where(indices.eq(classes), values.select(0, 1), values.select(0, 0))};
}

}  // namespace

std::span<const KernelRow> shape_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "ConstantOfShape",
                  .forward = constant_of_shape,
                  .on_host = bits({0}),
                  .expects = "list"},
        KernelRow{.type = "EyeLike", .forward = eye_like},
        KernelRow{.type = "NonZero", .forward = non_zero},
        KernelRow{
            .type = "OneHot", .forward = one_hot, .on_host = bits({1}), .expects = ", one, #2"},
        KernelRow{.type = "Range",
                  .forward = range,
                  .on_host = bits({0, 1, 2}),
                  .expects = "one, one, one"},
        KernelRow{.type = "Shape", .forward = shape},
        KernelRow{.type = "Size", .forward = size},
        KernelRow{.type = "Unique", .forward = unique},
    };
    return kRows;
}

}  // namespace partita::runtime
