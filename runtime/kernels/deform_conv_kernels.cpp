// SPDX-License-Identifier: Apache-2.0
//
// Deformable convolution of images: every tap of the kernel reads where an offset moves it to,
// between elements by bilinear interpolation, and 0 outside of the image.
//
//     x [n c h w]  ──sample──▶  taps [n c k oh ow], times mask  ──times weight──▶  [n f oh ow]
//
// Source: Dai et al., ICCV 2017; Zhu et al., CVPR 2019 (the mask); operator DeformConv of ONNX.
#include <array>
#include <stdexcept>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/windows.h"

namespace partita::runtime {

namespace {

struct Sizes {
    std::int64_t batch, channels, taps, height, width;  ///< of the result
    std::int64_t offset_groups;
};

/// Along spatial dim `dim` the undisturbed position of every tap of the kernel and output: [k oh
/// ow].
at::Tensor tap_positions(const Windows& windows, std::size_t dim, const Sizes& sizes,
                         const at::TensorOptions& options) {
    const std::int64_t outputs = dim == 0 ? sizes.height : sizes.width;
    const at::Tensor starts =
        at::arange(outputs, options) * windows.strides[dim] - windows.before[dim];
    const at::Tensor taps = at::arange(windows.kernel[dim], options) * windows.dilations[dim];
    const bool is_row = dim == 0;
    const at::Tensor placed_starts =
        is_row ? starts.reshape({1, 1, outputs, 1}) : starts.reshape({1, 1, 1, outputs});
    const at::Tensor placed_taps =
        is_row ? taps.reshape({-1, 1, 1, 1}) : taps.reshape({1, -1, 1, 1});
    return (placed_starts + placed_taps)
        .expand({windows.kernel[0], windows.kernel[1], sizes.height, sizes.width})
        .reshape({sizes.taps, sizes.height, sizes.width});
}

/// images [n c h w] between their elements, at rows y and columns x [n p]: [n c p].
at::Tensor interpolated(const at::Tensor& images, const at::Tensor& y, const at::Tensor& x) {
    const std::int64_t height = images.size(2);
    const std::int64_t width = images.size(3);
    const at::Tensor elements = images.flatten(2);
    at::Tensor sum;
    for (const int below : {0, 1}) {
        const at::Tensor row = at::floor(y.detach()) + below;
        const at::Tensor of_row = below != 0 ? y - row + 1 : row + 1 - y;
        for (const int right : {0, 1}) {
            const at::Tensor column = at::floor(x.detach()) + right;
            const at::Tensor of_column = right != 0 ? x - column + 1 : column + 1 - x;
            const at::Tensor is_inside = row.ge(0)
                                             .logical_and(row.lt(height))
                                             .logical_and(column.ge(0))
                                             .logical_and(column.lt(width));
            const at::Tensor index = at::clamp(row, 0, height - 1).to(at::kLong) * width +
                                     at::clamp(column, 0, width - 1).to(at::kLong);
            const at::Tensor weight = at::where(is_inside, of_row * of_column, 0).unsqueeze(1);
            const at::Tensor share =
                elements.gather(2, index.unsqueeze(1).expand({-1, images.size(1), -1})) * weight;
            sum = sum.defined() ? sum + share : share;
        }
    }
    return sum;
}

/// [n c k oh ow]
at::Tensor sampled_taps(const KernelCall& call, const Windows& windows, const Sizes& sizes) {
    const at::Tensor& x = call.operand(0);
    const std::int64_t images = sizes.batch * sizes.offset_groups;
    const at::Tensor offsets =
        call.operand(2).reshape({images, sizes.taps, 2, sizes.height, sizes.width});
    const auto places = [&](std::int64_t dim) {
        const at::Tensor undisturbed =
            tap_positions(windows, static_cast<std::size_t>(dim), sizes, x.options());
        return (undisturbed + offsets.select(2, dim)).reshape({images, -1});
    };
    const at::Tensor groups =
        x.reshape({images, sizes.channels / sizes.offset_groups, x.size(2), x.size(3)});
    return interpolated(groups, places(0), places(1))
        .reshape({sizes.batch, sizes.channels, sizes.taps, sizes.height, sizes.width});
}

at::Tensor masked(const KernelCall& call, const at::Tensor& taps, const Sizes& sizes) {
    if (!call.has(4)) return taps;
    const std::int64_t groups = sizes.offset_groups;
    const at::Tensor mask =
        call.operand(4).reshape({sizes.batch, groups, 1, sizes.taps, sizes.height, sizes.width});
    return (taps.reshape({sizes.batch, groups, -1, sizes.taps, sizes.height, sizes.width}) * mask)
        .reshape(taps.sizes());
}

Tensors deform_conv(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const at::Tensor& weight = call.operand(1);
    if (x.dim() != 4) throw std::runtime_error("only images of 2 dims are convolved");
    const Windows windows = windows_of(call, weight.sizes().slice(2).vec());
    const Sizes sizes{.batch = x.size(0),
                      .channels = x.size(1),
                      .taps = windows.kernel[0] * windows.kernel[1],
                      .height = call.operand(2).size(2),
                      .width = call.operand(2).size(3),
                      .offset_groups = call.integer("offset_group", 1)};
    const at::Tensor taps = masked(call, sampled_taps(call, windows, sizes), sizes);
    const std::int64_t groups = call.integer("group", 1);
    const at::Tensor columns =
        taps.reshape({sizes.batch, groups, sizes.channels / groups * sizes.taps, -1});
    const at::Tensor rows = weight.reshape({groups, weight.size(0) / groups, -1});
    const at::Tensor y =
        at::matmul(rows, columns).reshape({sizes.batch, weight.size(0), sizes.height, sizes.width});
    return {call.has(3) ? y + call.operand(3).reshape({1, -1, 1, 1}) : y};
}

}  // namespace

std::span<const KernelRow> deform_conv_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "DeformConv", .forward = deform_conv},
    };
    return kRows;
}

}  // namespace partita::runtime
