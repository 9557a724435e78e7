// SPDX-License-Identifier: Apache-2.0
//
// Elements looked up and replaced by index. Indices below 0 count from the end everywhere.
#include <array>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/WrapDimMinimal.h>

#include "runtime/kernels/carried.h"
#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

using Ints = std::vector<std::int64_t>;

at::Tensor wrapped(const at::Tensor& indices, std::int64_t extent) {
    const at::Tensor wide = indices.to(at::kLong);
    return at::where(wide < 0, wide + extent, wide);
}

std::int64_t axis_of(const KernelCall& call, std::int64_t rank, std::int64_t fallback = 0) {
    return c10::maybe_wrap_dim(call.integer("axis", fallback), rank);
}

// --- Gather ------------------------------------------------------------------------------------

Tensors gather(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t axis = axis_of(call, data.dim());
    const at::Tensor indices = wrapped(call.operand(1), data.size(axis));
    Ints shape = data.sizes().vec();
    const auto at = shape.erase(shape.begin() + axis);
    shape.insert(at, indices.sizes().begin(), indices.sizes().end());
    return {data.index_select(axis, indices.reshape(-1)).reshape(shape)};
}

// data [a x c], indices [i], gradient [a i c]
Tensors gather_backward(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    const std::int64_t axis = axis_of(call, static_cast<std::int64_t>(shape.size()));
    const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
    const at::Tensor indices = wrapped(call.operand(1), extent).reshape(-1);
    const at::Tensor& given = call.gradients[0];
    if (axis == 0 && given.numel() > 0) {
        const at::Tensor rows = given.reshape({indices.numel(), -1});
        return only_first(call, at::embedding_dense_backward(rows, indices, extent,
                                                             /*padding_idx=*/-1,
                                                             /*scale_grad_by_freq=*/false)
                                    .reshape(shape));
    }
    Ints selected = shape;
    selected[static_cast<std::size_t>(axis)] = indices.numel();
    return only_first(
        call, at::zeros(shape, given.options()).index_add(axis, indices, given.reshape(selected)));
}

Tensors gather_elements(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t axis = axis_of(call, data.dim());
    return {data.gather(axis, wrapped(call.operand(1), data.size(axis)))};
}

Tensors gather_elements_backward(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    const std::int64_t axis = axis_of(call, static_cast<std::int64_t>(shape.size()));
    const at::Tensor indices = wrapped(call.operand(1), shape[static_cast<std::size_t>(axis)]);
    const at::Tensor& given = call.gradients[0];
    return only_first(call, at::zeros(shape, given.options()).scatter_add(axis, indices, given));
}

/// Row of the dims `sizes`, merged, that the last dim of `indices` names.
at::Tensor merged_rows(const at::Tensor& indices, at::IntArrayRef sizes) {
    at::Tensor rows =
        at::zeros(indices.sizes().slice(0, static_cast<std::size_t>(indices.dim()) - 1),
                  indices.options().dtype(at::kLong));
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
        const at::Tensor index = indices.select(-1, static_cast<std::int64_t>(dim));
        rows = rows * sizes[dim] + wrapped(index, sizes[dim]);
    }
    return rows;
}

/// Which rows of the dims [b x], merged, GatherND takes: indices [b i k] -> [b i].
at::Tensor nd_rows(const at::Tensor& indices, at::IntArrayRef sizes, std::size_t batch_dims) {
    const auto selected = static_cast<std::size_t>(indices.size(-1));
    at::Tensor rows = merged_rows(indices, sizes.slice(batch_dims, selected));
    std::int64_t batches = 1;
    for (std::size_t dim = 0; dim < batch_dims; ++dim) batches *= sizes[dim];
    std::int64_t each = 1;
    for (std::size_t dim = 0; dim < selected; ++dim) each *= sizes[batch_dims + dim];
    const at::Tensor offsets = at::arange(batches, rows.options()) * each;
    return (rows.reshape({batches, -1}) + offsets.unsqueeze(1)).reshape(rows.sizes());
}

/// data [b x c] as [(b x) c].
at::Tensor merged(const at::Tensor& data, std::size_t dims) {
    Ints shape(data.sizes().begin() + static_cast<std::ptrdiff_t>(dims), data.sizes().end());
    std::int64_t rows = 1;
    for (std::size_t dim = 0; dim < dims; ++dim) rows *= data.sizes()[dim];
    shape.insert(shape.begin(), rows);
    return data.reshape(shape);
}

// data [b x c], indices [b i k] -> [b i c]
Tensors gather_nd(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const at::Tensor& indices = call.operand(1);
    const auto batch_dims = static_cast<std::size_t>(call.integer("batch_dims", 0));
    const at::Tensor rows = nd_rows(indices, data.sizes(), batch_dims);
    const std::size_t dims = batch_dims + static_cast<std::size_t>(indices.size(-1));
    Ints shape = rows.sizes().vec();
    shape.insert(shape.end(), data.sizes().begin() + static_cast<std::ptrdiff_t>(dims),
                 data.sizes().end());
    return {merged(data, dims).index_select(0, rows.reshape(-1)).reshape(shape)};
}

Tensors gather_nd_backward(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    const at::Tensor& indices = call.operand(1);
    const auto batch_dims = static_cast<std::size_t>(call.integer("batch_dims", 0));
    const at::Tensor rows = nd_rows(indices, shape, batch_dims).reshape(-1);
    const std::size_t dims = batch_dims + static_cast<std::size_t>(indices.size(-1));
    const at::Tensor& given = call.gradients[0];
    const at::Tensor gradient = merged(at::zeros(shape, given.options()), dims);
    Ints selected = gradient.sizes().vec();
    selected[0] = rows.numel();
    return only_first(call, gradient.index_add(0, rows, given.reshape(selected)).reshape(shape));
}

// --- Scatter -----------------------------------------------------------------------------------

/// ATen's name of an ONNX reduction; empty: none.
std::string scatter_reduction_of(const KernelCall& call) {
    const std::string name = call.text("reduction", "none");
    if (name == "add") return "sum";
    if (name == "mul") return "prod";
    if (name == "max") return "amax";
    if (name == "min") return "amin";
    return "";
}

Tensors scatter_elements(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t axis = axis_of(call, data.dim());
    const at::Tensor indices = wrapped(call.operand(1), data.size(axis));
    const std::string reduction = scatter_reduction_of(call);
    if (reduction.empty()) return {data.scatter(axis, indices, call.operand(2))};
    return {data.scatter_reduce(axis, indices, call.operand(2), reduction)};
}

// data [x c], indices [i k], updates [i c]
Tensors scatter_nd(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const at::Tensor& indices = call.operand(1);
    const auto dims = static_cast<std::size_t>(indices.size(-1));
    const at::Tensor rows = merged_rows(indices, data.sizes().slice(0, dims)).reshape(-1);
    if (data.numel() == 0) return {data};
    const at::Tensor flat = merged(data, dims).unsqueeze(-1).flatten(1);
    const at::Tensor updates = call.operand(2).reshape({rows.numel(), flat.size(1)});
    const at::Tensor where = rows.unsqueeze(1).expand(updates.sizes());
    const std::string reduction = scatter_reduction_of(call);
    const at::Tensor result = reduction.empty() ? flat.scatter(0, where, updates)
                                                : flat.scatter_reduce(0, where, updates, reduction);
    return {result.reshape(data.sizes())};
}

// A cache [b ... s ...] of which the rows from write index [b] on are replaced.
Tensors tensor_scatter(const KernelCall& call) {
    const at::Tensor& cache = call.operand(0);
    const at::Tensor& update = call.operand(1);
    const std::int64_t axis = axis_of(call, cache.dim(), -2);
    const auto options = cache.options().dtype(at::kLong);
    const at::Tensor first = call.has(2) ? call.operand(2).to(cache.device(), at::kLong)
                                         : at::zeros({cache.size(0)}, options);
    at::Tensor rows = first.unsqueeze(1) + at::arange(update.size(axis), options);
    if (call.text("mode", "linear") == "circular") rows = rows.remainder(cache.size(axis));
    Ints shape(static_cast<std::size_t>(cache.dim()), 1);
    shape[0] = cache.size(0);
    shape[static_cast<std::size_t>(axis)] = update.size(axis);
    return {cache.scatter(axis, rows.reshape(shape).expand(update.sizes()), update)};
}

// --- TopK --------------------------------------------------------------------------------------

// A stable sort puts the lower index first where values are equal, which at::topk does not promise.
Tensors top_k(const KernelCall& call) {
    const auto type = call.operand(0).scalar_type();
    const at::Tensor data = ordered(call.operand(0));
    const std::int64_t axis = axis_of(call, data.dim(), -1);
    const std::int64_t k = call.has(1) ? call.integers(1).front() : call.integer("k", 1);
    const bool is_largest = call.integer("largest", 1) != 0;
    const auto [values, indices] = at::sort(data, /*stable=*/true, axis, is_largest);
    const at::Tensor first = values.narrow(axis, 0, k);
    return {type == at::kUInt64 ? from_ordered(first) : first.to(type), indices.narrow(axis, 0, k)};
}

Tensors array_feature_extractor(const KernelCall& call) {
    return {at::atleast_2d(call.operand(0)).index_select(-1, call.operand(1).reshape(-1))};
}

}  // namespace

std::span<const KernelRow> index_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "ArrayFeatureExtractor",
                  .forward = array_feature_extractor,
                  .domain = "ai.onnx.ml"},
        KernelRow{.type = "Gather", .forward = any_type<gather>, .backward = gather_backward},
        KernelRow{.type = "GatherElements",
                  .forward = any_type<gather_elements>,
                  .backward = gather_elements_backward},
        KernelRow{
            .type = "GatherND", .forward = any_type<gather_nd>, .backward = gather_nd_backward},
        KernelRow{.type = "Scatter", .forward = any_type<scatter_elements>},
        KernelRow{.type = "ScatterElements", .forward = any_type<scatter_elements>},
        KernelRow{.type = "ScatterND", .forward = any_type<scatter_nd>},
        KernelRow{.type = "TensorScatter", .forward = any_type<tensor_scatter>},
        KernelRow{.type = "TopK", .forward = top_k, .on_host = bits({1}), .expects = ", one"},
    };
    return kRows;
}

}  // namespace partita::runtime
