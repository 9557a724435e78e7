// SPDX-License-Identifier: Apache-2.0
//
// Resize and Upsample, one axis after the other. Along an axis a result is a weighed sum of the
// operand's positions around its source coordinate:
//
//     nearest   1 position      linear    2        cubic    4; more where antialias shrinks
//
// Positions and weights are worked out on the CPU in double precision, as their rounding decides
// which element "nearest" takes.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <variant>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/WrapDimMinimal.h>

#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

using Ints = std::vector<std::int64_t>;
using Reals = std::vector<double>;

struct ResizeOptions {
    std::string mode;         ///< nearest, linear, cubic
    std::string coordinates;  ///< coordinate_transformation_mode
    std::string rounding;     ///< nearest_mode
    double cubic = -0.75;     ///< cubic_coeff_a
    bool excludes_outside = false;
    bool has_antialias = false;
    double extrapolation = 0;
};

/// One axis from `extent` to `target` positions.
struct ResizeAxis {
    std::int64_t axis = 0;
    std::int64_t extent = 0;
    std::int64_t target = 0;
    double scale = 1;
    double roi_begin = 0;
    double roi_end = 1;
};

double source_coordinate(const ResizeAxis& a, const std::string& mode, double x) {
    const auto extent = static_cast<double>(a.extent);
    const double length = a.scale * extent;  // may be no integer
    if (mode == "align_corners") return length == 1 ? 0 : x * (extent - 1) / (length - 1);
    if (mode == "asymmetric") return x / a.scale;
    if (mode == "tf_crop_and_resize") {
        const double width = (a.roi_end - a.roi_begin) * (extent - 1);
        return a.roi_begin * (extent - 1) + (length == 1 ? width / 2 : x * width / (length - 1));
    }
    if (mode == "pytorch_half_pixel" && length == 1) return -0.5;
    const double half_pixel = (x + 0.5) / a.scale - 0.5;
    if (mode != "half_pixel_symmetric") return half_pixel;
    return extent / 2 * (1 - static_cast<double>(a.target) / length) + half_pixel;
}

double nearest(double x, const std::string& rounding) {
    if (rounding == "round_prefer_ceil") return std::floor(x + 0.5);
    if (rounding == "floor") return std::floor(x);
    if (rounding == "ceil") return std::ceil(x);
    return std::ceil(x - 0.5);
}

double linear_weight(double distance) {
    return std::max(0.0, 1 - std::abs(distance));
}

/// Keys' cubic convolution.
double cubic_weight(double distance, double a) {
    const double x = std::abs(distance);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? a * (((x - 5) * x + 8) * x - 4) : 0;
}

/// Positions (row-major [target count]) and their weights.
struct Weights {
    std::int64_t count = 1;
    Ints positions;
    Reals weights;
};

/// The weights of one result, over positions from `first` on.
void add_weights(const ResizeAxis& a, const ResizeOptions& options, double x, Weights& w) {
    const bool is_cubic = options.mode == "cubic";
    const double support = is_cubic ? 2 : 1;
    const double shrink = options.has_antialias ? std::min(a.scale, 1.0) : 1.0;
    const auto first = static_cast<std::int64_t>(std::floor(x - support / shrink)) + 1;
    Reals weights;
    double sum = 0;
    for (std::int64_t i = 0; i < w.count; ++i) {
        const std::int64_t p = first + i;
        const double distance = shrink * (static_cast<double>(p) - x);
        double weight = is_cubic ? cubic_weight(distance, options.cubic) : linear_weight(distance);
        if (options.excludes_outside && (p < 0 || p >= a.extent)) weight = 0;
        w.positions.push_back(std::clamp<std::int64_t>(p, 0, a.extent - 1));
        weights.push_back(weight);
        sum += weight;
    }
    const bool is_normalized = (options.excludes_outside || options.has_antialias) && sum != 0;
    for (const double weight : weights) w.weights.push_back(is_normalized ? weight / sum : weight);
}

constexpr double kMostCoordinate = 1LL << 52;  // integers up to here are doubles

Weights weights_of(const ResizeAxis& a, const ResizeOptions& options) {
    Weights w;
    if (options.mode != "nearest") {
        const double shrink = options.has_antialias ? std::min(a.scale, 1.0) : 1.0;
        constexpr double kMostTaps = 1 << 24;
        expect(shrink * kMostTaps >= 4, "scales: expected no more than 2^24 elements per result");
        w.count =
            2 * static_cast<std::int64_t>(std::ceil((options.mode == "cubic" ? 2 : 1) / shrink));
    }
    for (std::int64_t i = 0; i < a.target; ++i) {
        check_time();
        const double x = source_coordinate(a, options.coordinates, static_cast<double>(i));
        // NaN is not either.
        expect(std::abs(x) <= kMostCoordinate, "roi, scales: expected coordinates of at most 2^52");
        if (options.mode == "nearest") {
            const auto position = static_cast<std::int64_t>(nearest(x, options.rounding));
            w.positions.push_back(std::clamp<std::int64_t>(position, 0, a.extent - 1));
        } else {
            add_weights(a, options, x, w);
        }
    }
    return w;
}

/// Along `dim`, as the data has it.
at::Tensor along(const at::Tensor& values, std::int64_t dim, std::int64_t rank) {
    Ints shape(static_cast<std::size_t>(rank), 1);
    shape[static_cast<std::size_t>(dim)] = values.numel();
    return values.reshape(shape);
}

/// What lies outside of the operand has the extrapolation value.
at::Tensor extrapolated(const KernelCall& call, const at::Tensor& result, const ResizeAxis& a,
                        const ResizeOptions& options) {
    if (options.coordinates != "tf_crop_and_resize") return result;
    std::vector<std::int64_t> outside;
    for (std::int64_t i = 0; i < a.target; ++i) {
        const double x = source_coordinate(a, options.coordinates, static_cast<double>(i));
        outside.push_back(x < 0 || x > static_cast<double>(a.extent - 1) ? 1 : 0);
    }
    const at::Tensor mask = call.sent(at::tensor(outside, at::kLong).to(at::kBool));
    return result.masked_fill(along(mask, a.axis, result.dim()), options.extrapolation);
}

at::Tensor resized(const KernelCall& call, const at::Tensor& data, const ResizeAxis& a,
                   const ResizeOptions& options) {
    const Weights w = weights_of(a, options);
    const at::Tensor positions = call.sent(at::tensor(w.positions, at::kLong));
    if (options.mode == "nearest") {
        return extrapolated(call, data.index_select(a.axis, positions), a, options);
    }
    const at::Tensor weights = call.sent(at::tensor(w.weights, at::kDouble).to(data.scalar_type()));
    at::Tensor result;
    for (std::int64_t i = 0; i < w.count; ++i) {
        const at::Tensor column = positions.slice(0, i, std::nullopt, w.count);
        const at::Tensor weight = weights.slice(0, i, std::nullopt, w.count);
        const at::Tensor term =
            data.index_select(a.axis, column) * along(weight, a.axis, data.dim());
        result = result.defined() ? result + term : term;
    }
    return extrapolated(call, result, a, options);
}

/// Integers are weighed as floats.
at::Tensor resized(const KernelCall& call, const std::vector<ResizeAxis>& axes,
                   const ResizeOptions& options) {
    const at::Tensor& data = call.operand(0);
    const bool is_real = data.is_floating_point() || options.mode == "nearest";
    at::Tensor result = is_real ? data : data.to(at::kDouble);
    for (const ResizeAxis& a : axes) {
        const bool is_all = a.roi_begin == 0 && a.roi_end == 1;
        if (a.scale == 1 && a.target == a.extent && is_all) continue;
        result = resized(call, result, a, options);
    }
    return is_real ? result : result.round().to(data.scalar_type());
}

Reals reals_of(const at::Tensor& tensor) {
    if (!tensor.defined()) return {};
    const at::Tensor dense = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto* const begin = dense.const_data_ptr<double>();
    return {begin, begin + dense.numel()};
}

std::vector<ResizeAxis> axes_of(const at::Tensor& data, Ints axes) {
    if (axes.empty()) {
        axes.resize(static_cast<std::size_t>(data.dim()));
        std::iota(axes.begin(), axes.end(), 0);
    }
    std::vector<ResizeAxis> result;
    for (const std::int64_t listed : axes) {
        const std::int64_t axis = c10::maybe_wrap_dim(listed, data.dim());
        result.push_back({.axis = axis, .extent = data.size(axis), .target = data.size(axis)});
    }
    return result;
}

void set_scales(std::vector<ResizeAxis>& axes, const Reals& scales) {
    expect(scales.size() == axes.size(), "scales: expected one for each axis");
    for (std::size_t i = 0; i < axes.size(); ++i) {
        constexpr double kMost = 1e12;
        expect(scales[i] > 0 && scales[i] <= kMost, "scales: expected numbers > 0, at most 1e12");
        axes[i].scale = scales[i];
        axes[i].target =
            static_cast<std::int64_t>(std::floor(scales[i] * static_cast<double>(axes[i].extent)));
    }
}

void set_sizes(std::vector<ResizeAxis>& axes, const Ints& sizes, const std::string& policy) {
    expect(sizes.size() == axes.size(), "sizes: expected one for each axis");
    expect(std::ranges::none_of(sizes, [](std::int64_t size) { return size < 0; }),
           "sizes: expected none below 0");
    for (std::size_t i = 0; i < axes.size(); ++i) {
        expect(axes[i].extent > 0, "operand 0: nothing along an axis");
        axes[i].target = sizes[i];
        axes[i].scale = static_cast<double>(sizes[i]) / static_cast<double>(axes[i].extent);
    }
    if (policy == "stretch" || axes.empty()) return;
    const auto by_scale = [](const ResizeAxis& a, const ResizeAxis& b) {
        return a.scale < b.scale;
    };
    const auto [least, most] = std::ranges::minmax_element(axes, by_scale);
    const double scale = policy == "not_larger" ? least->scale : most->scale;
    for (ResizeAxis& a : axes) {
        a.scale = scale;
        const double target = std::floor(scale * static_cast<double>(a.extent) + 0.5);
        a.target = static_cast<std::int64_t>(target);
    }
}

Tensors resize(const KernelCall& call) {
    constexpr int kFirstWithRoi = 11;
    const at::Tensor& data = call.operand(0);
    const bool is_old = call.op.opset > 0 && call.op.opset < kFirstWithRoi;
    const ResizeOptions options{
        .mode = call.text("mode", "nearest"),
        .coordinates =
            call.text("coordinate_transformation_mode", is_old ? "asymmetric" : "half_pixel"),
        .rounding = call.text("nearest_mode", is_old ? "floor" : "round_prefer_floor"),
        .cubic = call.real("cubic_coeff_a", -0.75),
        .excludes_outside = call.integer("exclude_outside", 0) != 0,
        .has_antialias = call.integer("antialias", 0) != 0,
        .extrapolation = call.real("extrapolation_value", 0.0)};
    std::vector<ResizeAxis> axes = axes_of(data, call.op.attributes.get_ints("axes"));
    const Reals scales = reals_of(call.operand(is_old ? 1 : 2));
    if (!scales.empty()) {
        set_scales(axes, scales);
    } else {
        set_sizes(axes, call.integers(3), call.text("keep_aspect_ratio_policy", "stretch"));
    }
    const Reals roi = is_old ? Reals() : reals_of(call.operand(1));
    for (std::size_t i = 0; i < axes.size() && roi.size() == 2 * axes.size(); ++i) {
        if (options.coordinates != "tf_crop_and_resize") break;
        axes[i].roi_begin = roi[i];
        axes[i].roi_end = roi[i + axes.size()];
    }
    return {resized(call, axes, options)};
}

// Opset 1 scales two dims, 7 has an attribute, 9 an operand.
Tensors upsample(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::string mode = call.text("mode", "nearest");
    const ResizeOptions options{.mode = mode == "nearest" ? mode : "linear",
                                .coordinates = "asymmetric",
                                .rounding = "floor"};
    Reals scales = reals_of(call.operand(1));
    if (const auto* value = call.op.attributes.find("scales"); scales.empty() && value != nullptr) {
        if (const auto* reals = std::get_if<Reals>(value)) scales = *reals;
    }
    if (scales.empty()) scales = {1, 1, call.real("height_scale", 1), call.real("width_scale", 1)};
    std::vector<ResizeAxis> axes = axes_of(data, {});
    set_scales(axes, scales);
    return {resized(call, axes, options)};
}

}  // namespace

std::span<const KernelRow> resize_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Resize",
                  .forward = resize,
                  .on_host = bits({1, 2, 3}),
                  .expects = ", list, list, list"},
        KernelRow{
            .type = "Upsample", .forward = upsample, .on_host = bits({1}), .expects = ", list"},
    };
    return kRows;
}

}  // namespace partita::runtime
