// SPDX-License-Identifier: Apache-2.0
//
// The largest element of each bin of each region of interest, whose corners are rounded to
// elements. The bins of a region overlap where its extent is no multiple of theirs; an empty one
// gives 0.
//
// Source: Girshick, Fast R-CNN, ICCV 2015; operator MaxRoiPool of ONNX.
#include <array>
#include <limits>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

/// Which positions of a dim lie in which bin of which region: [r bins extent].
at::Tensor bin_mask(const at::Tensor& first, const at::Tensor& last, std::int64_t bins,
                    std::int64_t extent) {
    const at::Tensor length = at::clamp_min(last - first + 1, 1).unsqueeze(-1);
    const at::Tensor number = at::arange(bins, first.options());
    const at::Tensor size = length / static_cast<double>(bins);
    const at::Tensor begin = at::floor(size * number) + first.unsqueeze(-1);
    const at::Tensor end = at::ceil(size * (number + 1)) + first.unsqueeze(-1);
    const at::Tensor position = at::arange(extent, first.options());
    return position.ge(begin.unsqueeze(-1)).logical_and(position.lt(end.unsqueeze(-1)));
}

// x [n c h w], regions [r 5]: number of the image, x and y of two corners.
Tensors max_roi_pool(const KernelCall& call) {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    const at::Tensor& x = call.operand(0);
    const at::Tensor& regions = call.operand(1);
    const graph::Shape bins = call.op.attributes.get_ints("pooled_shape");
    expect(bins.size() == 2, "pooled_shape: expected a height and a width");
    const auto corner = [&](std::int64_t column) {
        return at::round(regions.select(1, column) * call.real("spatial_scale", 1.0));
    };
    const at::Tensor images = x.index_select(0, regions.select(1, 0).to(at::kLong));
    const at::Tensor rows = bin_mask(corner(2), corner(4), bins[0], x.size(2));
    const at::Tensor columns = bin_mask(corner(1), corner(3), bins[1], x.size(3));
    // [r c h pw w] over w, then [r c ph h pw] over h
    const at::Tensor of_columns =
        at::amax(at::where(columns.unsqueeze(1).unsqueeze(1), images.unsqueeze(3), kNothing), {-1});
    const at::Tensor found = at::amax(
        at::where(rows.unsqueeze(1).unsqueeze(-1), of_columns.unsqueeze(2), kNothing), {-2});
    return {at::where(found.eq(kNothing), 0, found)};
}

}  // namespace

std::span<const KernelRow> roi_pooling_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "MaxRoiPool", .forward = max_roi_pool, .expects = "n c h w, r 5"},
    };
    return kRows;
}

}  // namespace partita::runtime
