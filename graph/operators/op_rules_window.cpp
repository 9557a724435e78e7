// SPDX-License-Identifier: Apache-2.0
//
// Other ops whose results read a range of each operand dim: pooling, LRN, Resize, CenterCropPad,
// and Col2Im, which reads all of it.
#include <algorithm>
#include <cmath>

#include "graph/operators/op_rules.h"
#include "graph/operators/op_windows.h"

namespace partita::graph {

// "n c h w -> n c h w, n c h w", h and w windowed.
OpRule pool_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const Shape kernel = op.attributes.get_ints("kernel_shape");
    b.expect_rank(0, static_cast<int>(kernel.size()) + 2);
    for (int result = 0; result < b.result_count(); ++result) {
        if (result == 0 || b.has_result(result)) b.expect_result_rank(result, b.rank(0));
    }
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

/// What Resize does to one dim. Coordinates are computed from the whole extents, so a part can say
/// its own only where they repeat: k results per position, or one result per k positions.
struct Scaling {
    enum class Kind : std::uint8_t { none, up, down, other } kind = Kind::other;
    std::int64_t times = 1;
};

/// Coordinates move with the operand: output i + k*times lies k positions (or blocks) further on.
bool shifts_with_operand(const Op& op, Scaling::Kind kind) {
    const std::string mode =
        op.attributes.get_string("coordinate_transformation_mode",
                                 op.opset > 0 && op.opset < 11 ? "asymmetric" : "half_pixel");
    // One result is a special case of pytorch_half_pixel, and a part may have one.
    const bool is_up = kind == Scaling::Kind::up;
    return mode == "half_pixel" || mode == "half_pixel_symmetric" || mode == "asymmetric" ||
           (mode == "pytorch_half_pixel" && is_up);
}

/// Whether rounding to the nearest position is the same for every part: the coordinates i * k of a
/// reduction are computed as i / (1/k), which is exact for powers of two only.
bool rounds_alike(const Op& op, const Scaling& scaling) {
    if (scaling.kind != Scaling::Kind::down) return true;
    return op.attributes.get_string("mode", "nearest") != "nearest" ||
           (scaling.times & (scaling.times - 1)) == 0;
}

/// Sizes give the scale exactly, scales only when they are known; a scale of 1.1 may leave an
/// extent as it is. Batch and channels are taken as unscaled when their extents stay.
std::vector<Scaling> scalings_of(const RuleBuilder& b) {
    constexpr int kSizes = 3;
    const Op& op = b.op();
    const bool has_sizes =
        b.has_operand(kSizes) && !b.shape(kSizes).empty() && b.shape(kSizes).front() > 0;
    const bool is_stretched =
        op.attributes.get_string("keep_aspect_ratio_policy", "stretch") == "stretch";
    const bool has_axes = op.attributes.find("axes") != nullptr;
    const int scales_operand = op.type == "Upsample" || b.opset_before(11) ? 1 : 2;
    const auto scales = b.integers(scales_operand);
    std::vector<Scaling> scalings(static_cast<std::size_t>(b.rank(0)));
    for (std::size_t dim = 0; dim < scalings.size(); ++dim) {
        const std::int64_t from = b.shape(0)[dim];
        const std::int64_t to = b.result_shape(0)[dim];
        if (from <= 0 || to <= 0) continue;
        const bool is_known = has_sizes
                                  ? is_stretched
                                  : !has_axes && scales && scales->size() == scalings.size() &&
                                        to == (*scales)[dim] * from;
        if (from == to && (is_known || dim < 2)) {
            scalings[dim].kind = Scaling::Kind::none;
        } else if (is_known && to % from == 0) {
            scalings[dim] = {Scaling::Kind::up, to / from};
        } else if (is_known && from % to == 0) {
            scalings[dim] = {Scaling::Kind::down, from / to};
        }
        const Scaling& scaling = scalings[dim];
        if (scaling.kind == Scaling::Kind::none || scaling.kind == Scaling::Kind::other) continue;
        if (!shifts_with_operand(op, scaling.kind) || !rounds_alike(op, scaling)) {
            scalings[dim] = {};
        }
    }
    return scalings;
}

/// A window in whole positions (up) or blocks of them (down), wide enough for every kernel.
Window resize_window(const Op& op, const Scaling& scaling) {
    const bool is_cubic = op.attributes.get_string("mode", "nearest") == "cubic";
    const std::int64_t times = scaling.times;
    if (scaling.kind == Scaling::Kind::up) {
        const std::int64_t margin = checked_product(is_cubic ? 3 : 2, times);
        return {.stride = 1, .before = margin, .after = margin, .divisor = times};
    }
    const bool antialias = op.attributes.get_int("antialias", 0) != 0;
    const std::int64_t reach = checked_product(is_cubic ? 2 : 1, antialias ? times : 1) + 1;
    const std::int64_t margin = (reach + times - 1) / times * times;
    return {.stride = times, .before = margin, .after = margin + times - 1};
}

}  // namespace

OpRule resize_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, b.result_rank(0));
    const bool crops =
        op.attributes.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize";
    const std::vector<int> dims = b.add_dims(b.result_shape(0));
    const std::vector<Scaling> scalings = scalings_of(b);
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor = dims[std::size_t(dim)];
        const Scaling& scaling = scalings[std::size_t(dim)];
        b.result(0, dim, {factor});
        if (crops || scaling.kind == Scaling::Kind::other) {
            b.factor(factor).splittable = false;
        } else if (scaling.kind == Scaling::Kind::none) {
            b.operand(0, dim, {factor});
        } else {
            b.window(0, dim, factor, resize_window(op, scaling));
        }
    }
    return b.finish();
}

// Crops or pads each dim around its centre; the odd position is cropped or padded at the end.
OpRule center_crop_pad_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, b.result_rank(0));
    const std::vector<int> dims = b.add_dims(b.result_shape(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor = dims[std::size_t(dim)];
        const std::int64_t shift = (b.shape(0)[std::size_t(dim)] - b.factor(factor).extent) / 2;
        b.result(0, dim, {factor});
        if (b.shape(0)[std::size_t(dim)] == b.factor(factor).extent) {
            b.operand(0, dim, {factor});
        } else {
            b.window(0, dim, factor, {.before = -shift, .after = shift});
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
