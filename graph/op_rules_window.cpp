// SPDX-License-Identifier: Apache-2.0
//
// Other ops whose results read a range of each operand dim: pooling, LRN, Resize, CenterCropPad, and
// Col2Im, which reads all of it.
#include <algorithm>
#include <cmath>

#include "graph/op_rules.h"
#include "graph/op_windows.h"

namespace partita::graph {

// "n c h w -> n c h w, n c h w", h and w windowed.
OpRule pool_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const Shape kernel = op.attributes.get_ints("kernel_shape");
    b.expect_rank(0, static_cast<int>(kernel.size()) + 2);
    // Indices number the elements of the whole operand; a part would have to know its offset.
    const bool splittable = !b.has_result(1);
    std::vector<int> dims{b.add("n", b.shape(0)[0], splittable),
                          b.add("c", b.shape(0)[1], splittable)};
    std::vector<int> spatial;
    std::int64_t kernel_points = 1;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
        const std::string name = spatial_name(static_cast<int>(i), static_cast<int>(kernel.size()));
        spatial.push_back(b.add(name, b.result_shape(0)[i + 2], splittable));
        kernel_points = checked_product(kernel_points, kernel[i]);
    }
    dims.insert(dims.end(), spatial.begin(), spatial.end());
    b.operand(0, 0, {dims[0]});
    b.operand(0, 1, {dims[1]});
    for (int dim = 0; dim < static_cast<int>(dims.size()); ++dim) {
        for (int result = 0; result < b.result_count(); ++result) {
            b.result(result, dim, {dims[std::size_t(dim)]});
        }
    }
    set_windows(b, 0, spatial, window_attributes(b, kernel));
    b.set_flops(kernel_points * b.points());
    return b.finish();
}

// "n c ... -> n c ...", c windowed by `size` channels.
OpRule lrn_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    if (b.rank(0) < 2) b.fail("operand 0: expected 2 dims or more");
    const std::vector<int> dims = b.add_dims(b.shape(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        b.operand(0, dim, {dims[std::size_t(dim)]});
        b.result(0, dim, {dims[std::size_t(dim)]});
    }
    b.factor(dims[1]).name = "c";
    const std::int64_t size = op.attributes.get_int("size", 1);
    const std::int64_t before = (size - 1) / 2;
    b.window(0, 1, dims[1], {.before = before, .after = size - 1 - before});
    b.set_flops(size * b.points());
    return b.finish();
}

namespace {

/// A window that holds every position from which any of Resize's modes computes output i: all lie
/// within a few positions of i * (operand extent / result extent). Which few, is the margin: half a
/// step of the two grids, what rounding the result's extent down may shift, and the kernel's reach.
Window resize_window(const Op& op, std::int64_t from, std::int64_t to) {
    const std::int64_t step = (from + to - 1) / to;  // operand positions per output, rounded up
    const bool antialias = op.attributes.get_int("antialias", 0) != 0;
    const std::int64_t reach =
        (op.attributes.get_string("mode", "nearest") == "cubic" ? 2 : 1) * (antialias ? step : 1);
    const std::int64_t margin = checked_product(step + 1 + reach, to);
    return {.stride = from, .before = margin, .after = margin, .divisor = to};
}

}  // namespace

OpRule resize_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, b.result_rank(0));
    const bool crops =
        op.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize";
    const std::vector<int> dims = b.add_dims(b.result_shape(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor = dims[std::size_t(dim)];
        const std::int64_t from = b.shape(0)[std::size_t(dim)];
        const std::int64_t to = b.factor(factor).extent;
        b.result(0, dim, {factor});
        if (from == to && !crops) {
            b.operand(0, dim, {factor});
        } else if (!crops && from > 0 && to > 0) {
            b.window(0, dim, factor, resize_window(op, from, to));
        } else {
            b.factor(factor).splittable = false;
        }
    }
    return b.finish();
}

// Crops or pads each dim around its centre; one position of slack covers either way to round.
OpRule center_crop_pad_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, b.result_rank(0));
    const std::vector<int> dims = b.add_dims(b.result_shape(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor = dims[std::size_t(dim)];
        const std::int64_t shift = b.shape(0)[std::size_t(dim)] - b.factor(factor).extent;
        b.result(0, dim, {factor});
        if (shift == 0) {
            b.operand(0, dim, {factor});
        } else {
            b.window(0, dim, factor, {.before = 1 - shift / 2, .after = shift / 2 + 1});
        }
    }
    return b.finish();
}

// "n (c k) . -> n c .."
OpRule col2im_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, 3);
    if (b.result_rank(0) < 2) b.fail("result 0: expected 2 dims or more");
    const std::int64_t channels = b.result_shape(0)[1];
    const int n = b.add("n", b.shape(0)[0]);
    const int c = b.add("c", channels);
    const int k = b.add("k", channels == 0 ? 0 : b.shape(0)[1] / channels, /*splittable=*/false);
    b.operand(0, 0, {n});
    b.operand(0, 1, {c, k});
    b.result(0, 0, {n});
    b.result(0, 1, {c});
    std::int64_t columns = b.shape(0)[2];
    b.set_flops(columns * b.points());
    return b.finish();
}

}  // namespace partita::graph
