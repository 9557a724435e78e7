// SPDX-License-Identifier: Apache-2.0
//
// Convolutions of 1 to 3 spatial dims. ATen pads both sides alike: padding that differs is done
// first, and what a transposed convolution pads is cropped afterwards.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/windows.h"

namespace partita::runtime {

namespace {

graph::Shape spatial_of(at::IntArrayRef sizes) {
    return sizes.slice(2).vec();
}

graph::Shape negated(graph::Shape numbers) {
    for (std::int64_t& number : numbers) number = -number;
    return numbers;
}

/// A convolution whose padding is alike on both sides, and its operand. Strides often read nothing
/// of the padding behind: then it may be as long as that in front.
struct Convolution {
    at::Tensor x;
    Windows windows;
    graph::Shape padding;
    std::int64_t groups = 1;
    bool pads_first = false;

    [[nodiscard]] at::Tensor operator()(const at::Tensor& weight,
                                        const std::optional<at::Tensor>& bias) const {
        const graph::Shape none(windows.rank(), 0);
        return at::convolution(x, weight, bias, windows.strides, padding, windows.dilations,
                               /*transposed=*/false, none, groups);
    }
};

Convolution convolution_of(const KernelCall& call, const at::Tensor& x, const at::Tensor& weight) {
    Convolution convolution{.x = x,
                            .windows = windows_of(call, spatial_of(weight.sizes())),
                            .groups = call.integer("group", 1)};
    const Windows& windows = convolution.windows;
    convolution.padding = windows.before;
    const graph::Shape outputs = spatial_of(result_extents(call, 0));
    convolution.pads_first = !windows.may_pad_alike(x.sizes().slice(2), outputs);
    if (convolution.pads_first) {
        convolution.x = padded(x, windows.before, windows.after);
        convolution.padding.assign(windows.rank(), 0);
    }
    return convolution;
}

std::optional<at::Tensor> bias_of(const KernelCall& call, std::size_t operand) {
    return call.has(operand) ? std::optional(call.operand(operand)) : std::nullopt;
}

Tensors conv(const KernelCall& call) {
    const at::Tensor& weight = call.operand(1);
    return {convolution_of(call, call.operand(0), weight)(weight, bias_of(call, 2))};
}

/// The operand; one of its shape where it is not saved, because no gradient that is wanted reads it.
at::Tensor saved_or_zeros(const BackwardCall& call, std::size_t operand) {
    if (call.has(operand)) return call.operand(operand);
    return at::zeros({}, call.gradients[0].options()).expand(call.operand_shapes[operand]);
}

Tensors conv_backward(const BackwardCall& call) {
    const at::Tensor weight = saved_or_zeros(call, 1);
    const Convolution convolution = convolution_of(call, saved_or_zeros(call, 0), weight);
    const Windows& windows = convolution.windows;
    at::OptionalIntArrayRef bias;
    if (call.wants(2)) bias = call.operand_shapes[2];
    const graph::Shape none(windows.rank(), 0);
    auto [data, of_weight, of_bias] =
        at::convolution_backward(call.gradients[0], convolution.x, weight, bias, windows.strides,
                                 convolution.padding, windows.dilations, /*transposed=*/false, none,
                                 convolution.groups, {call.wants(0), call.wants(1), call.wants(2)});
    if (call.wants(0) && convolution.pads_first) {
        data = padded(data, negated(windows.before), negated(windows.after));
    }
    Tensors gradients{data, of_weight, of_bias};
    gradients.resize(call.wanted.size());
    return gradients;
}

/// Padding of a transposed convolution where the shape of the result is given: what is too much.
void pad_to_output_shape(Windows& windows, const KernelCall& call, const graph::Shape& extra,
                         const graph::Shape& data) {
    const graph::Shape target = call.op.attributes.get_ints("output_shape");
    if (target.empty()) return;
    const bool is_upper = call.text("auto_pad", "NOTSET") == "SAME_UPPER";
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        const std::int64_t full = windows.reach(i, data[i]) + extra[i];
        const std::int64_t total =
            std::max<std::int64_t>(full - target[target.size() - windows.rank() + i], 0);
        windows.before[i] = is_upper ? total / 2 : total - total / 2;
        windows.after[i] = total - windows.before[i];
    }
}

/// ATen's own padding, when both sides are alike and the additional outputs are few.
bool is_direct(const Windows& windows, const graph::Shape& extra) {
    for (std::size_t i = 0; i < windows.rank(); ++i) {
        const std::int64_t limit = std::max(windows.strides[i], windows.dilations[i]);
        if (windows.before[i] != windows.after[i] || windows.before[i] < 0) return false;
        if (extra[i] < 0 || extra[i] >= limit) return false;
    }
    return true;
}

Tensors conv_transpose(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const at::Tensor& weight = call.operand(1);
    Windows windows = windows_of(call, spatial_of(weight.sizes()));
    graph::Shape extra = call.op.attributes.get_ints("output_padding");
    extra.resize(windows.rank(), 0);
    pad_to_output_shape(windows, call, extra, spatial_of(x.sizes()));
    const std::int64_t groups = call.integer("group", 1);
    if (is_direct(windows, extra)) {
        return {at::convolution(x, weight, bias_of(call, 2), windows.strides, windows.before,
                                windows.dilations, /*transposed=*/true, extra, groups)};
    }
    const graph::Shape none(windows.rank(), 0);
    const at::Tensor full = at::convolution(x, weight, std::nullopt, windows.strides, none,
                                            windows.dilations, /*transposed=*/true, none, groups);
    for (std::size_t i = 0; i < extra.size(); ++i) extra[i] -= windows.after[i];
    at::Tensor result = padded(full, negated(windows.before), extra);
    if (!call.has(2)) return {result};
    graph::Shape channels(static_cast<std::size_t>(result.dim()), 1);
    channels[1] = -1;
    return {result + call.operand(2).reshape(channels)};
}

// Integers: products and sums are exact in float64 up to 2^53, and ATen has no integer convolution.

/// A scale or zero point: one number, or one for each channel, which is dim `dim`.
at::Tensor per_channel(const at::Tensor& parameter, std::int64_t rank, std::int64_t dim) {
    if (parameter.numel() == 1) return parameter.reshape({}).to(at::kDouble);
    graph::Shape shape(static_cast<std::size_t>(rank), 1);
    shape[static_cast<std::size_t>(dim)] = -1;
    return parameter.reshape(shape).to(at::kDouble);
}

at::Tensor centered(const KernelCall& call, std::size_t operand, std::size_t zero_point) {
    at::Tensor x = call.operand(operand).to(at::kDouble);
    if (!call.has(zero_point)) return x;
    return x - per_channel(call.operand(zero_point), x.dim(), 0);
}

Tensors conv_integer(const KernelCall& call) {
    const at::Tensor weight = centered(call, 1, 3);
    const Convolution convolution = convolution_of(call, centered(call, 0, 2), weight);
    return {convolution(weight, std::nullopt).to(at::kInt)};
}

// x, its scale and zero point, weight, its scale and zero point, scale and zero point of the
// result, bias
Tensors quantized_conv(const KernelCall& call) {
    const at::Tensor weight = centered(call, 3, 5);
    std::optional<at::Tensor> bias;
    if (call.has(8)) bias = call.operand(8).to(at::kDouble);
    const Convolution convolution = convolution_of(call, centered(call, 0, 2), weight);
    const at::Tensor sums = convolution(weight, bias);
    const at::Tensor scale = per_channel(call.operand(1), sums.dim(), 1) *
                             per_channel(call.operand(4), sums.dim(), 1) /
                             per_channel(call.operand(6), sums.dim(), 1);
    const at::Tensor rounded =
        at::round(sums * scale) + per_channel(call.operand(7), sums.dim(), 1);
    return {saturated(rounded, call.op.results[0].dtype)};
}

}  // namespace

std::span<const KernelRow> convolution_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Conv", .forward = conv, .backward = conv_backward},
        KernelRow{.type = "ConvInteger", .forward = conv_integer},
        KernelRow{.type = "ConvTranspose", .forward = conv_transpose},
        KernelRow{.type = "QLinearConv", .forward = quantized_conv},
    };
    return kRows;
}

}  // namespace partita::runtime
