// SPDX-License-Identifier: Apache-2.0
//
// Sampling of images at coordinates, their assembly from columns, and the choice among boxes.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

using Ints = std::vector<std::int64_t>;

Tensors affine_grid(const KernelCall& call) {
    return {at::affine_grid_generator(call.operand(0), call.integers(1),
                                      call.integer("align_corners", 0) != 0)};
}

Tensors grid_sample(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::string mode = call.text("mode", "linear");
    const std::string padding = call.text("padding_mode", "zeros");
    const std::int64_t interpolation = mode == "nearest"                      ? 1
                                       : mode == "cubic" || mode == "bicubic" ? 2
                                                                              : 0;
    const std::int64_t outside = padding == "border" ? 1 : padding == "reflection" ? 2 : 0;
    return {at::grid_sampler(data, call.operand(1).to(data.scalar_type()), interpolation, outside,
                             call.integer("align_corners", 0) != 0)};
}

/// `fallback` for every dim where the attribute is absent.
Ints ints_of(const KernelCall& call, std::string_view attribute, std::size_t count,
             std::int64_t fallback) {
    Ints values = call.op.attributes.get_ints(attribute);
    if (values.empty()) values.assign(count, fallback);
    return values;
}

// data [n (c k...) l...]: each position of the block adds its columns to a strided grid of the
// padded image, which is cropped at the end.
Tensors col2im(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const Ints image = call.integers(1);
    const Ints block = call.integers(2);
    const std::size_t rank = image.size();
    const Ints dilations = ints_of(call, "dilations", rank, 1);
    const Ints strides = ints_of(call, "strides", rank, 1);
    const Ints pads = ints_of(call, "pads", 2 * rank, 0);
    expect(block.size() == rank && dilations.size() == rank && strides.size() == rank &&
               pads.size() == 2 * rank,
           "expected as many extents of the block, dilations, strides and pads as of the image");
    expect(std::ranges::min(strides, {}, std::identity{}) > 0, "strides: expected steps > 0");
    std::int64_t positions = 1;
    for (const std::int64_t extent : block) {
        expect(extent > 0 && extent <= std::max<std::int64_t>(data.size(1), 1) / positions,
               "operand 2: expected a block of no more elements than operand 0 has channels");
        positions *= extent;
    }
    Ints padded{data.size(0), data.size(1) / positions};
    Ints columns{data.size(0), padded[1], positions};
    for (std::size_t i = 0; i < rank; ++i) {
        padded.push_back(image[i] + pads[i] + pads[i + rank]);
        columns.push_back((padded.back() - dilations[i] * (block[i] - 1) - 1) / strides[i] + 1);
    }
    const at::Tensor source = data.reshape(columns);
    at::Tensor result = at::zeros(padded, data.options());
    for (std::int64_t position = 0; position < positions; ++position) {
        check_time();
        at::Tensor target = result;
        std::int64_t rest = position;
        for (std::size_t i = rank; i-- > 0;) {
            const std::int64_t first = rest % block[i] * dilations[i];
            rest /= block[i];
            target = target.slice(static_cast<std::int64_t>(i) + 2, first,
                                  first + (columns[i + 3] - 1) * strides[i] + 1, strides[i]);
        }
        target.add_(source.select(2, position));
    }
    for (std::size_t i = 0; i < rank; ++i) {
        result = result.narrow(static_cast<std::int64_t>(i) + 2, pads[i], image[i]);
    }
    return {result};
}

// --- RoiAlign ----------------------------------------------------------------------------------

struct RoiOptions {
    std::int64_t height = 1;
    std::int64_t width = 1;
    std::int64_t samples = 0;  ///< per bin and dim; 0: as many as the bin has positions
    double scale = 1;
    bool is_half_pixel = true;
    bool is_max = false;
};

/// The samples of one dim: per sample its two positions and their weights, both 0 outside.
struct RoiSamples {
    std::int64_t per_bin = 1;
    at::Tensor low, high, low_weight, high_weight;
};

RoiSamples roi_samples(double begin, double end, std::int64_t bins, std::int64_t extent,
                       const RoiOptions& options, const at::TensorOptions& type) {
    const double length = options.is_half_pixel ? end - begin : std::max(end - begin, 1.0);
    const double bin = length / static_cast<double>(bins);
    RoiSamples samples;
    constexpr double kMostSamples = 1 << 24;
    expect(std::isfinite(bin) && std::abs(bin) * static_cast<double>(bins) <= kMostSamples &&
               static_cast<double>(bins) * static_cast<double>(options.samples) <= kMostSamples,
           "regions: expected fewer than 2^24 samples along an axis");
    samples.per_bin =
        options.samples > 0 ? options.samples : static_cast<std::int64_t>(std::ceil(bin));
    samples.per_bin = std::max<std::int64_t>(samples.per_bin, 0);
    std::vector<double> at;
    for (std::int64_t i = 0; i < bins * samples.per_bin; ++i) {
        at.push_back(begin +
                     (static_cast<double>(i) + 0.5) * bin / static_cast<double>(samples.per_bin));
    }
    const at::Tensor x = at::tensor(at, at::kDouble);
    const auto sent = [&](const at::Tensor& values, at::ScalarType as) {
        return values.to(as).to(type.device(), as, /*non_blocking=*/true);
    };
    const auto last = static_cast<double>(extent - 1);
    const at::Tensor inside = x.ge(-1.0).logical_and(x.le(last + 1)).to(at::kDouble);
    const at::Tensor clamped = x.clamp(0.0, last);
    const at::Tensor low = clamped.floor();
    const at::Tensor high_weight = clamped - low;
    const auto weight = c10::typeMetaToScalarType(type.dtype());
    samples.low = sent(low, at::kLong);
    samples.high = sent((low + 1).clamp_max(last), at::kLong);
    samples.low_weight = sent((1 - high_weight) * inside, weight);
    samples.high_weight = sent(high_weight * inside, weight);
    return samples;
}

/// Bilinear values [c y x] at all samples; with `is_max` the largest of the four weighed corners.
at::Tensor roi_values(const at::Tensor& image, const RoiSamples& y, const RoiSamples& x,
                      bool is_max) {
    const auto corner = [&](const at::Tensor& row, const at::Tensor& row_weight,
                            const at::Tensor& column, const at::Tensor& column_weight) {
        return image.index_select(1, row).index_select(2, column) * row_weight.unsqueeze(1) *
               column_weight;
    };
    const Tensors corners{corner(y.low, y.low_weight, x.low, x.low_weight),
                          corner(y.low, y.low_weight, x.high, x.high_weight),
                          corner(y.high, y.high_weight, x.low, x.low_weight),
                          corner(y.high, y.high_weight, x.high, x.high_weight)};
    return is_max ? at::stack(corners).amax(0) : at::stack(corners).sum(0);
}

at::Tensor roi_result(const at::Tensor& image, const double* box, const RoiOptions& options) {
    const double shift = options.is_half_pixel ? 0.5 : 0.0;
    const auto edge = [&](int i) { return box[i] * options.scale - shift; };
    const RoiSamples y =
        roi_samples(edge(1), edge(3), options.height, image.size(1), options, image.options());
    const RoiSamples x =
        roi_samples(edge(0), edge(2), options.width, image.size(2), options, image.options());
    if (y.per_bin == 0 || x.per_bin == 0) {
        return at::zeros({image.size(0), options.height, options.width}, image.options());
    }
    const at::Tensor bins =
        roi_values(image, y, x, options.is_max)
            .reshape({image.size(0), options.height, y.per_bin, options.width, x.per_bin});
    return options.is_max ? bins.amax({2, 4}) : bins.mean({2, 4});
}

// data [n c h w], rois [r 4], batch indices [r]: one region after the other, as each may have
// another number of samples.
Tensors roi_align(const KernelCall& call) {
    constexpr int kFirstWithMode = 16;
    const bool has_mode = call.op.opset == 0 || call.op.opset >= kFirstWithMode;
    const std::string mode =
        call.text("coordinate_transformation_mode", has_mode ? "half_pixel" : "");
    const RoiOptions options{.height = call.integer("output_height", 1),
                             .width = call.integer("output_width", 1),
                             .samples = call.integer("sampling_ratio", 0),
                             .scale = call.real("spatial_scale", 1.0),
                             .is_half_pixel = mode == "half_pixel",
                             .is_max = call.text("mode", "avg") == "max"};
    const at::Tensor& data = call.operand(0);
    const at::Tensor rois = call.operand(1).detach().to(at::kCPU, at::kDouble).contiguous();
    const auto* const boxes = rois.const_data_ptr<double>();
    Tensors results;
    for (const std::int64_t image : call.integers(2)) {
        check_time();
        const auto at = static_cast<std::int64_t>(results.size()) * rois.size(1);
        results.push_back(roi_result(data.select(0, image), boxes + at, options));
    }
    if (results.empty()) {
        return {at::zeros({0, data.size(1), options.height, options.width}, data.options())};
    }
    return {at::stack(results)};
}

// --- NonMaxSuppression -------------------------------------------------------------------------

struct Box {
    double top, left, bottom, right;
    [[nodiscard]] double area() const { return (bottom - top) * (right - left); }
};

/// Corners in any order, or center and size.
Box box_of(const float* at, bool is_center) {
    if (is_center) {
        return {at[1] - at[3] / 2.0, at[0] - at[2] / 2.0, at[1] + at[3] / 2.0, at[0] + at[2] / 2.0};
    }
    return {std::min(at[0], at[2]), std::min(at[1], at[3]), std::max(at[0], at[2]),
            std::max(at[1], at[3])};
}

/// Intersection over union.
double overlap(const Box& a, const Box& b) {
    const double height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
    const double width = std::min(a.right, b.right) - std::max(a.left, b.left);
    if (height <= 0 || width <= 0) return 0;
    const double shared = height * width;
    const double all = a.area() + b.area() - shared;
    return a.area() <= 0 || b.area() <= 0 || all <= 0 ? 0 : shared / all;
}

struct Suppression {
    std::int64_t most = 0;  ///< boxes per class
    double overlap = 0;
    double score = 0;
    bool has_score = false;
};

/// Boxes of one class, best score first; of equal ones the lower index.
Ints selected(const std::vector<Box>& boxes, const float* scores, const Suppression& limits) {
    Ints order;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (std::isnan(scores[i])) continue;
        if (!limits.has_score || scores[i] > limits.score) {
            order.push_back(static_cast<std::int64_t>(i));
        }
    }
    std::ranges::sort(order, [scores](std::int64_t i, std::int64_t j) {
        return scores[i] != scores[j] ? scores[i] > scores[j] : i < j;
    });
    Ints chosen;
    for (const std::int64_t i : order) {
        check_time();
        if (static_cast<std::int64_t>(chosen.size()) >= limits.most) break;
        const auto covers = [&](std::int64_t j) {
            return overlap(boxes[static_cast<std::size_t>(i)], boxes[static_cast<std::size_t>(j)]) >
                   limits.overlap;
        };
        if (std::ranges::none_of(chosen, covers)) chosen.push_back(i);
    }
    return chosen;
}

double scalar_of(const KernelCall& call, std::size_t operand) {
    return call.has(operand) ? call.operand(operand).reshape(-1)[0].item().toDouble() : 0.0;
}

// boxes [n b 4], scores [n c b] -> [m 3]: image, class, box
Tensors non_max_suppression(const KernelCall& call) {
    const at::Tensor boxes = call.operand(0).detach().to(at::kCPU, at::kFloat).contiguous();
    const at::Tensor scores = call.operand(1).detach().to(at::kCPU, at::kFloat).contiguous();
    const bool is_center = call.integer("center_point_box", 0) != 0;
    const Suppression limits{.most = call.has(2) ? call.integers(2).front() : 0,
                             .overlap = scalar_of(call, 3),
                             .score = scalar_of(call, 4),
                             .has_score = call.has(4)};
    const std::int64_t count = boxes.size(1);
    Ints result;
    for (std::int64_t image = 0; image < boxes.size(0); ++image) {
        const float* const at = boxes.const_data_ptr<float>() + image * count * 4;
        std::vector<Box> here;
        for (std::int64_t i = 0; i < count; ++i) here.push_back(box_of(at + i * 4, is_center));
        for (std::int64_t kind = 0; kind < scores.size(1); ++kind) {
            const float* const of_class =
                scores.const_data_ptr<float>() + (image * scores.size(1) + kind) * count;
            for (const std::int64_t box : selected(here, of_class, limits)) {
                result.insert(result.end(), {image, kind, box});
            }
        }
    }
    return {call.sent(at::tensor(result, at::kLong).reshape({-1, 3}))};
}

}  // namespace

std::span<const KernelRow> vision_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "AffineGrid",
                  .forward = affine_grid,
                  .on_host = bits({1}),
                  .expects = ", list"},
        KernelRow{.type = "Col2Im",
                  .forward = col2im,
                  .on_host = bits({1, 2}),
                  .expects = "n c ..., #d, #d"},
        KernelRow{.type = "GridSample", .forward = grid_sample},
        KernelRow{.type = "NonMaxSuppression",
                  .forward = non_max_suppression,
                  .on_host = bits({0, 1, 2, 3, 4}),
                  .expects = "b n 4, b c n, one, one, one"},
        KernelRow{.type = "RoiAlign",
                  .forward = roi_align,
                  .on_host = bits({1, 2}),
                  .expects = "n c h w, r 4, #r"},
    };
    return kRows;
}

}  // namespace partita::runtime
