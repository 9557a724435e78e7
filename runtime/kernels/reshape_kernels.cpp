// SPDX-License-Identifier: Apache-2.0
//
// The same elements under another shape, in another order of dims, or repeated.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <c10/core/WrapDimMinimal.h>

#include "runtime/kernels/carried.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

using Ints = std::vector<std::int64_t>;

Tensors reshape(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    Ints target = call.integers_of(1, "shape");
    if (call.integer("allowzero", 0) == 0) {
        for (std::size_t i = 0; i < target.size(); ++i) {
            if (target[i] == 0) target[i] = data.size(static_cast<std::int64_t>(i));
        }
    }
    return {data.reshape(target)};
}

Tensors flatten(const KernelCall& call) {
    const at::IntArrayRef sizes = call.operand(0).sizes();
    const auto rank = static_cast<std::int64_t>(sizes.size());
    std::int64_t axis = call.integer("axis", 1);
    if (axis < 0) axis += rank;
    const auto product = [](at::IntArrayRef dims) {
        return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
    };
    const auto at = static_cast<std::size_t>(axis);
    return {call.operand(0).reshape({product(sizes.slice(0, at)), product(sizes.slice(at))})};
}

Tensors squeeze(const KernelCall& call) {
    const Ints axes = call.integers_of(1, "axes");
    const bool has_axes = call.has(1) || call.op.attributes.find("axes") != nullptr;
    return {has_axes ? call.operand(0).squeeze(axes) : call.operand(0).squeeze()};
}

Tensors unsqueeze(const KernelCall& call) {
    Ints axes = call.integers_of(1, "axes");
    const auto rank = call.operand(0).dim() + static_cast<std::int64_t>(axes.size());
    for (std::int64_t& axis : axes) axis = c10::maybe_wrap_dim(axis, rank);
    std::ranges::sort(axes);
    at::Tensor result = call.operand(0);
    for (const std::int64_t axis : axes) result = result.unsqueeze(axis);
    return {result};
}

Tensors reshape_backward(const BackwardCall& call) {
    return only_first(call, call.gradients[0].reshape(call.operand_shapes[0]));
}

Ints order_of(const KernelCall& call, std::int64_t rank) {
    Ints order = call.op.attributes.get_ints("perm");
    for (std::int64_t dim = rank; order.size() < static_cast<std::size_t>(rank);) {
        order.push_back(--dim);
    }
    return order;
}

Tensors transpose(const KernelCall& call) {
    return {call.operand(0).permute(order_of(call, call.operand(0).dim()))};
}

Tensors transpose_backward(const BackwardCall& call) {
    const Ints order = order_of(call, call.gradients[0].dim());
    Ints inverse(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
        inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    return only_first(call, call.gradients[0].permute(inverse));
}

Tensors expand(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    return {data.expand(at::infer_size(data.sizes(), call.integers_of(1, "shape")))};
}

Tensors expand_backward(const BackwardCall& call) {
    return only_first(call, unbroadcast(call.gradients[0], call.operand_shapes[0]));
}

Tensors tile(const KernelCall& call) {
    constexpr int kFirstWithRepeats = 6;
    const at::Tensor& data = call.operand(0);
    if (call.op.opset == 0 || call.op.opset >= kFirstWithRepeats) {
        return {data.repeat(call.integers_of(1, "repeats"))};
    }
    Ints repeats(static_cast<std::size_t>(data.dim()), 1);
    const std::int64_t axis = c10::maybe_wrap_dim(call.integers(2).front(), data.dim());
    repeats[static_cast<std::size_t>(axis)] = call.integers(1).front();
    return {data.repeat(repeats)};
}

/// x and y of the block stand before the channels (DCR) or after them (CRD).
bool is_column_first(const KernelCall& call) {
    return call.text("mode", "DCR") == "CRD";
}

Tensors depth_to_space(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t block = call.integer("blocksize", 1);
    const std::int64_t n = data.size(0);
    const std::int64_t c = data.size(1) / block / block;
    const std::int64_t h = data.size(2);
    const std::int64_t w = data.size(3);
    const at::Tensor wide =
        is_column_first(call)
            ? data.reshape({n, c, block, block, h, w}).permute({0, 1, 4, 2, 5, 3})
            : data.reshape({n, block, block, c, h, w}).permute({0, 3, 4, 1, 5, 2});
    return {wide.reshape({n, c, h * block, w * block})};
}

Tensors space_to_depth(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t block = call.integer("blocksize", 1);
    const std::int64_t n = data.size(0);
    const std::int64_t c = data.size(1);
    const std::int64_t h = data.size(2) / block;
    const std::int64_t w = data.size(3) / block;
    const at::Tensor blocks = data.reshape({n, c, h, block, w, block});
    const at::Tensor deep = is_column_first(call) ? blocks.permute({0, 1, 3, 5, 2, 4})
                                                  : blocks.permute({0, 3, 5, 1, 2, 4});
    return {deep.reshape({n, c * block * block, h, w})};
}

}  // namespace

std::span<const KernelRow> reshape_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "DepthToSpace", .forward = any_type<depth_to_space>},
        KernelRow{.type = "Expand",
                  .forward = any_type<expand>,
                  .backward = expand_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "Flatten", .forward = any_type<flatten>, .backward = reshape_backward},
        KernelRow{.type = "Reshape",
                  .forward = any_type<reshape>,
                  .backward = reshape_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "SpaceToDepth", .forward = any_type<space_to_depth>},
        KernelRow{.type = "Squeeze",
                  .forward = any_type<squeeze>,
                  .backward = reshape_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "Tile",
                  .forward = any_type<tile>,
                  .on_host = bits({1, 2}),
                  .expects = ", list, list"},
        KernelRow{
            .type = "Transpose", .forward = any_type<transpose>, .backward = transpose_backward},
        // A view where the engine reads through strides (fusion/fuse.h); here it is copied.
        KernelRow{.type = "Transpose",
                  .forward = any_type<transpose>,
                  .backward = transpose_backward,
                  .domain = "partita"},
        KernelRow{.type = "Unsqueeze",
                  .forward = any_type<unsqueeze>,
                  .backward = reshape_backward,
                  .on_host = bits({1}),
                  .expects = ", list"},
    };
    return kRows;
}

}  // namespace partita::runtime
