// SPDX-License-Identifier: Apache-2.0
//
// Pooling over windows and over whole images. How many outputs there are follows from the part's
// region of the result, so the operand is padded or cropped to what their windows read, and pooled
// without padding:
//
//     5 wide, kernel 2, stride 2, ceil_mode     x x x x x       3 outputs read 6 positions:
//                                               --- --- ---     one has to be added
//
// That also says what ceil_mode means: windows may hang over the padding, and an average does not
// count what hangs over. Plain cases go to ATen as they are.
#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/windows.h"

namespace partita::runtime {

namespace {

graph::Shape spatial_of(const graph::Shape& sizes) {
    return {sizes.begin() + 2, sizes.end()};
}

/// What has to stand behind the operand so that the last windows are full; negative: more than
/// they read.
graph::Shape missing_after(const Windows& windows, const graph::Shape& data,
                           const graph::Shape& outputs) {
    graph::Shape missing;
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        missing.push_back(windows.reach(i, outputs[i]) - data[i] - windows.before[i]);
    }
    return missing;
}

/// ATen pads half a window at most, both sides alike.
bool is_plain(const Windows& windows, const graph::Shape& data, const graph::Shape& outputs) {
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        if (windows.before[i] > windows.kernel[i] / 2) return false;
    }
    return windows.may_pad_alike(data, outputs);
}

std::runtime_error too_many_dims(const Windows& windows) {
    return std::runtime_error("pooling of " + std::to_string(windows.rank()) + " spatial dims");
}

std::pair<at::Tensor, at::Tensor> max_pool_with_indices(const at::Tensor& x, const Windows& windows,
                                                        const graph::Shape& padding) {
    std::tuple<at::Tensor, at::Tensor> both;
    switch (windows.rank()) {
    case 1:
        both = at::max_pool1d_with_indices(x, windows.kernel, windows.strides, padding,
                                           windows.dilations);
        break;
    case 2:
        both = at::max_pool2d_with_indices(x, windows.kernel, windows.strides, padding,
                                           windows.dilations);
        break;
    case 3:
        both = at::max_pool3d_with_indices(x, windows.kernel, windows.strides, padding,
                                           windows.dilations);
        break;
    default: throw too_many_dims(windows);
    }
    return {std::get<0>(both), std::get<1>(both)};
}

/// Positions in the whole operand, row-major or with the first spatial dim fastest, from positions
/// in one padded image.
at::Tensor whole_indices(const at::Tensor& indices, const graph::Shape& data,
                         const Windows& windows, const graph::Shape& padded_data,
                         bool is_column_major) {
    at::Tensor rest = indices;
    std::vector<at::Tensor> places(windows.rank());
    for (std::size_t i = windows.rank(); i-- > 0;) {
        places[i] = at::remainder(rest, padded_data[i]) - windows.before[i];
        rest = at::div(rest, padded_data[i], "trunc");
    }
    at::Tensor position = at::zeros_like(indices);
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        const std::size_t dim = is_column_major ? i : windows.rank() - 1 - i;
        position = position + places[dim] * stride;
        stride *= data[dim + 2];
    }
    graph::Shape images(static_cast<std::size_t>(indices.dim()), 1);
    images[0] = data[0];
    images[1] = data[1];
    const at::Tensor image = at::arange(data[0] * data[1], indices.options()).reshape(images);
    return position + image * stride;
}

/// Smaller than every element that is not.
double padding_of_max(const at::Tensor& x, graph::DType dtype) {
    return x.is_floating_point() ? -std::numeric_limits<double>::infinity() : lowest_of(dtype);
}

at::Tensor max_pool_only(const at::Tensor& x, const Windows& windows, const graph::Shape& padding) {
    switch (windows.rank()) {
    case 1: return at::max_pool1d(x, windows.kernel, windows.strides, padding, windows.dilations);
    case 2: return at::max_pool2d(x, windows.kernel, windows.strides, padding, windows.dilations);
    case 3: return at::max_pool3d(x, windows.kernel, windows.strides, padding, windows.dilations);
    default: throw too_many_dims(windows);
    }
}

Tensors max_pool(const KernelCall& call) {
    Windows windows = windows_of(call);
    const graph::Shape sizes = call.operand(0).sizes().vec();
    at::Tensor x = call.operand(0);
    const auto type = x.scalar_type();
    // For GPUs ATen has none of integers, which have 8 bits here.
    if (!x.is_cpu() && at::isIntegralType(type, /*includeBool=*/true)) x = x.to(at::kFloat);
    graph::Shape padding = windows.before;
    const graph::Shape data = spatial_of(sizes);
    const graph::Shape outputs = spatial_of(result_extents(call, 0));
    if (is_plain(windows, data, outputs)) {
        windows.before.assign(windows.rank(), 0);  // ATen's indices are in the operand already
    } else {
        x = padded(x, windows.before, missing_after(windows, data, outputs),
                   padding_of_max(x, call.op.operands[0].dtype));
        padding.assign(windows.rank(), 0);
    }
    if (call.op.results.size() < 2 || !call.op.results[1].is_wanted) {
        return {max_pool_only(x, windows, padding).to(type)};
    }
    const auto [result, indices] = max_pool_with_indices(x, windows, padding);
    return {result.to(type),
            whole_indices(indices, call.op.operands[0].shape, windows, spatial_of(x.sizes().vec()),
                          call.integer("storage_order", 0) != 0)};
}

Tensors max_pool_backward(const BackwardCall& call) {
    return differentiate_again(call, max_pool);
}

/// ATen's average pooling has no dilations: a convolution of every image with the same weights.
at::Tensor dilated_mean(const at::Tensor& x, const Windows& windows) {
    const auto count = static_cast<double>(c10::multiply_integers(windows.kernel));
    graph::Shape ones{1, 1};
    ones.insert(ones.end(), windows.kernel.begin(), windows.kernel.end());
    const at::Tensor weight = at::full(ones, 1.0 / count, x.options());
    const graph::Shape none(windows.rank(), 0);
    const at::Tensor result =
        at::convolution(x.flatten(0, 1).unsqueeze(1), weight, std::nullopt, windows.strides, none,
                        windows.dilations, /*transposed=*/false, none, /*groups=*/1);
    return result.squeeze(1).unflatten(0, {x.size(0), x.size(1)});
}

/// Sums over windows divided by their extent, or by what of it is no padding.
at::Tensor mean_pool(const at::Tensor& x, const Windows& windows, const graph::Shape& padding,
                     bool counts_padding) {
    switch (windows.rank()) {
    case 1:
        return at::avg_pool1d(x, windows.kernel, windows.strides, padding, false, counts_padding);
    case 2:
        return at::avg_pool2d(x, windows.kernel, windows.strides, padding, false, counts_padding);
    case 3:
        return at::avg_pool3d(x, windows.kernel, windows.strides, padding, false, counts_padding);
    default: throw too_many_dims(windows);
    }
}

/// Of an operand that is padded already.
at::Tensor mean_pool(const at::Tensor& x, const Windows& windows) {
    if (windows.is_dilated()) return dilated_mean(x, windows);
    return mean_pool(x, windows, graph::Shape(windows.rank(), 0), /*counts_padding=*/true);
}

/// Does a window hang over the padding?
bool hangs_over(const graph::Shape& missing, const Windows& windows) {
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        if (missing[i] > windows.after[i]) return true;
    }
    return false;
}

/// 1 where an element or padding counts, 0 elsewhere, for one image.
at::Tensor counted(const Windows& windows, const graph::Shape& data, graph::Shape missing,
                   bool counts_padding, const at::TensorOptions& options) {
    graph::Shape image{1, 1};
    image.insert(image.end(), data.begin(), data.end());
    const at::Tensor ones = at::ones(image, options);
    if (!counts_padding) return padded(ones, windows.before, missing);
    for (std::size_t i = 0; i < missing.size(); ++i) missing[i] -= windows.after[i];
    const graph::Shape none(windows.rank(), 0);
    return padded(padded(ones, windows.before, windows.after, 1), none, missing);
}

/// The mean over the window, divided by the share of the window that counts.
Tensors average_pool(const KernelCall& call) {
    const Windows windows = windows_of(call);
    const at::Tensor& x = call.operand(0);
    const bool counts_padding = call.integer("count_include_pad", 0) != 0;
    const graph::Shape data = spatial_of(x.sizes().vec());
    const graph::Shape outputs = spatial_of(result_extents(call, 0));
    const graph::Shape missing = missing_after(windows, data, outputs);
    if (is_plain(windows, data, outputs) && !windows.is_dilated() &&
        !(counts_padding && hangs_over(missing, windows))) {
        return {mean_pool(x, windows, windows.before, counts_padding)};
    }
    const at::Tensor share =
        mean_pool(counted(windows, data, missing, counts_padding, x.options()), windows);
    return {mean_pool(padded(x, windows.before, missing), windows) / share};
}

Tensors average_pool_backward(const BackwardCall& call) {
    return differentiate_linear(call, average_pool);
}

Tensors lp_pool(const KernelCall& call) {
    const Windows windows = windows_of(call);
    const at::Tensor& x = call.operand(0);
    const auto p = static_cast<double>(call.integer("p", 2));
    const graph::Shape data = spatial_of(x.sizes().vec());
    const graph::Shape after = missing_after(windows, data, spatial_of(result_extents(call, 0)));
    const auto extent = static_cast<double>(c10::multiply_integers(windows.kernel));
    const at::Tensor powers = padded(x.abs().pow(p), windows.before, after);
    return {(mean_pool(powers, windows) * extent).pow(1 / p)};
}

// Over whole images.

graph::Shape image_dims(std::size_t rank) {
    graph::Shape dims;
    for (std::size_t dim = 2; dim < rank; ++dim) dims.push_back(static_cast<std::int64_t>(dim));
    return dims;
}

Tensors global_average_pool(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const graph::Shape dims = image_dims(x.sizes().size());
    return {dims.empty() ? x : at::mean(x, dims, /*keepdim=*/true)};
}

Tensors global_average_pool_backward(const BackwardCall& call) {
    const graph::Shape& shape = call.operand_shapes[0];
    const auto image = c10::multiply_integers(spatial_of(shape));
    return {(call.gradients[0] / static_cast<double>(image)).expand(shape)};
}

Tensors global_max_pool(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const graph::Shape dims = image_dims(x.sizes().size());
    return {dims.empty() ? x : at::amax(x, dims, /*keepdim=*/true)};
}

/// The result is that of all parts: every element equal to it gets the whole gradient.
Tensors global_max_pool_backward(const BackwardCall& call) {
    const at::Tensor& x = call.operand(0);
    return {at::where(x.eq(call.results[0]), call.gradients[0], 0)};
}

Tensors global_lp_pool(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const auto p = static_cast<double>(call.integer("p", 2));
    const graph::Shape dims = image_dims(x.sizes().size());
    return {at::sum(x.abs().pow(p), dims, /*keepdim=*/true).pow(1 / p)};
}

/// Every element goes to its position in the result; positions count over the result that pads and
/// strides give, which output_shape may enlarge.
Tensors max_unpool(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const Windows windows = windows_of(call);
    graph::Shape inner = x.sizes().vec();
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        inner[i + 2] = (inner[i + 2] - 1) * windows.strides[i] + windows.kernel[i] -
                       windows.before[i] - windows.after[i];
    }
    const graph::Shape target = call.has(2) ? call.integers(2) : inner;
    expect(target.size() == inner.size(), "operand 2: expected an extent for each dim");
    at::Tensor result = at::zeros({c10::multiply_integers(inner)}, x.options());
    result = result.scatter(0, call.operand(1).reshape({-1}), x.reshape({-1})).reshape(inner);
    graph::Shape after;
    for (std::size_t i = 2; i < inner.size(); ++i) after.push_back(target[i] - inner[i]);
    return {padded(result, graph::Shape(after.size(), 0), after)};
}

}  // namespace

std::span<const KernelRow> pooling_kernels() {
    static constexpr std::array kRows = {
        KernelRow{
            .type = "AveragePool", .forward = average_pool, .backward = average_pool_backward},
        KernelRow{.type = "GlobalAveragePool",
                  .forward = global_average_pool,
                  .backward = global_average_pool_backward},
        KernelRow{.type = "GlobalLpPool", .forward = global_lp_pool},
        KernelRow{.type = "GlobalMaxPool",
                  .forward = global_max_pool,
                  .backward = global_max_pool_backward},
        KernelRow{.type = "LpPool", .forward = lp_pool},
        KernelRow{.type = "MaxPool", .forward = max_pool, .backward = max_pool_backward},
        KernelRow{.type = "MaxUnpool",
                  .forward = max_unpool,
                  .on_host = bits({2}),
                  .expects = ", , list"},
    };
    return kRows;
}

}  // namespace partita::runtime
