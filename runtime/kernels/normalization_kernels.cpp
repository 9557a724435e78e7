// SPDX-License-Identifier: Apache-2.0
//
// Normalizations: of batches, layers, instances, groups, channels. Statistics of 16-bit elements
// are taken in float32, as stash_type asks by default.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"
#include "runtime/kernels/windows.h"

namespace partita::runtime {

namespace {

/// A tensor of the channels, dim 1 of x, that broadcasts to x.
at::Tensor per_channel(const at::Tensor& parameter, std::int64_t rank) {
    graph::Shape shape(static_cast<std::size_t>(rank), 1);
    shape[1] = -1;
    return parameter.reshape(shape);
}

graph::Shape all_but_channels(std::int64_t rank) {
    graph::Shape dims{0};
    for (std::int64_t dim = 2; dim < rank; ++dim) dims.push_back(dim);
    return dims;
}

bool is_short(const at::Tensor& x) {
    return x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
}

at::Tensor stashed(const at::Tensor& x) {
    return is_short(x) ? x.to(at::kFloat) : x;
}

// Batches.

/// Statistics of the batch itself; otherwise the given ones.
bool takes_statistics(const KernelCall& call) {
    if (call.integer("training_mode", 0) != 0) return true;
    constexpr int kHasTrainingMode = 14;
    const auto& results = call.op.results;
    return call.op.opset < kHasTrainingMode && results.size() > 1 && results[1].is_wanted;
}

Tensors trained_batch_norm(const KernelCall& call) {
    const at::Tensor x = stashed(call.operand(0));
    const double keep = call.real("momentum", 0.9);
    const graph::Shape dims = all_but_channels(x.dim());
    const at::Tensor mean = at::mean(x, dims);
    const at::Tensor variance = at::var(x, dims, /*correction=*/0);
    const auto scale = (variance + call.real("epsilon", 1e-5)).rsqrt() * call.operand(1);
    const at::Tensor y = (x - per_channel(mean, x.dim())) * per_channel(scale, x.dim()) +
                         per_channel(call.operand(2), x.dim());
    const auto mixed = [&](std::size_t old, const at::Tensor& current) {
        const at::Tensor& given = call.operand(old);
        return (given * keep + current * (1 - keep)).to(given.scalar_type());
    };
    Tensors results{y.to(call.operand(0).scalar_type()), mixed(3, mean), mixed(4, variance)};
    results.push_back(mean);
    results.push_back(variance);
    results.resize(std::max<std::size_t>(call.op.results.size(), 1));
    return results;
}

/// ATen's own has parameters of the elements' type, and no gradients of statistics.
bool is_plain(const KernelCall& call) {
    for (std::size_t i = 1; i < 5; ++i) {
        if (call.operand(i).scalar_type() != call.operand(0).scalar_type()) return false;
    }
    const bool has_gradients = call.operand(3).requires_grad() || call.operand(4).requires_grad();
    return call.operand(1).dim() == 1 && !has_gradients;
}

Tensors batch_norm(const KernelCall& call) {
    if (takes_statistics(call)) return trained_batch_norm(call);
    const at::Tensor& x = call.operand(0);
    const double epsilon = call.real("epsilon", 1e-5);
    if (is_plain(call)) {
        return {std::get<0>(at::native_batch_norm(x, call.operand(1), call.operand(2),
                                                  call.operand(3), call.operand(4),
                                                  /*training=*/false, 0.1, epsilon))};
    }
    // Parameters of another type, or one for each element (`spatial` = 0, before opset 9).
    const auto shaped = [&](std::size_t operand) {
        const at::Tensor& parameter = call.operand(operand);
        return parameter.dim() == 1 ? per_channel(parameter, x.dim()) : parameter;
    };
    const at::Tensor scale = shaped(1) * (shaped(4) + epsilon).rsqrt();
    return {((x - shaped(3)) * scale + shaped(2)).to(x.scalar_type())};
}

/// Of a statistic of the batch: the running one mixes it in, before opset 14 it is a result too.
at::Tensor gradient_of_statistic(const BackwardCall& call, std::size_t running,
                                 const at::Tensor& statistic) {
    at::Tensor sum = at::zeros_like(statistic);
    const double share = 1 - call.real("momentum", 0.9);
    const std::size_t own = running + 2;
    if (call.gradients[running].defined()) sum += call.gradients[running] * share;
    if (own < call.gradients.size() && call.gradients[own].defined()) sum += call.gradients[own];
    return sum;
}

/// What the statistics of the batch add to the gradient of x:
///
///     d mean / dx = 1 / n        d variance / dx = 2 (x - mean) / n        n elements of a channel
void add_gradients_of_statistics(const BackwardCall& call, const at::Tensor& mean,
                                 const at::Tensor& variance, Tensors& gradients) {
    constexpr std::size_t kOldMean = 3;
    constexpr std::size_t kOldVariance = 4;
    const at::Tensor& x = call.operand(0);
    const double keep = call.real("momentum", 0.9);
    for (const std::size_t old : {kOldMean, kOldVariance}) {
        const at::Tensor& given = call.gradients[old - 2];
        if (call.wants(old) && given.defined()) gradients[old] = given * keep;
    }
    if (!call.wants(0)) return;
    const double share = static_cast<double>(mean.numel()) / static_cast<double>(x.numel());
    const at::Tensor of_mean = gradient_of_statistic(call, 1, mean) * share;
    const at::Tensor of_variance = gradient_of_statistic(call, 2, variance) * (2 * share);
    gradients[0] =
        gradients[0] + (per_channel(of_mean, x.dim()) +
                        (x - per_channel(mean, x.dim())) * per_channel(of_variance, x.dim()))
                           .to(x.scalar_type());
}

/// With statistics of the batch: y and its gradients are those of ATen's own training form. On GPUs
/// that wants float32 statistics of 16-bit elements.
Tensors trained_batch_norm_backward(const BackwardCall& call) {
    const at::Tensor x = stashed(call.operand(0));
    const double epsilon = call.real("epsilon", 1e-5);
    const graph::Shape dims = all_but_channels(x.dim());
    const at::Tensor mean = at::mean(x, dims);
    const at::Tensor variance = at::var(x, dims, /*correction=*/0);
    const at::Tensor given =
        call.gradients[0].defined() ? stashed(call.gradients[0]) : at::zeros_like(x);
    const at::Tensor& weight = call.operand(1);
    auto [data, scale, bias] = at::native_batch_norm_backward(
        given, x, weight.to(x.scalar_type()), std::nullopt, std::nullopt, mean,
        (variance + epsilon).rsqrt(),
        /*train=*/true, epsilon, {call.wants(0), call.wants(1), call.wants(2)});
    const auto as = [](const at::Tensor& gradient, const at::Tensor& operand) {
        return gradient.defined() ? gradient.to(operand.scalar_type()) : gradient;
    };
    Tensors gradients{as(data, call.operand(0)), as(scale, weight), as(bias, weight)};
    gradients.resize(call.wanted.size());
    const bool has_statistics =
        std::any_of(call.gradients.begin() + 1, call.gradients.end(),
                    [](const at::Tensor& gradient) { return gradient.defined(); });
    if (has_statistics) add_gradients_of_statistics(call, mean, variance, gradients);
    return gradients;
}

/// Frozen statistics:  y = (x - mean) r scale + bias,  r = (variance + epsilon)^(-1/2).
Tensors batch_norm_backward(const BackwardCall& call) {
    if (takes_statistics(call)) return trained_batch_norm_backward(call);
    const at::Tensor& x = call.operand(0);
    const at::Tensor& scale = call.operand(1);
    const at::Tensor& gradient = call.gradients[0];
    const at::Tensor r = (call.operand(4) + call.real("epsilon", 1e-5)).rsqrt();
    const graph::Shape dims = all_but_channels(x.dim());
    Tensors gradients(call.wanted.size());
    if (call.wants(0))
        gradients[0] = gradient * per_channel(r * scale, x.dim()).to(x.scalar_type());
    at::Tensor sum;
    at::Tensor product;  // of the gradient and the centered operand
    if (call.wants(2) || call.wants(3)) sum = at::sum(gradient, dims);
    if (call.wants(1) || call.wants(4)) {
        product = at::sum(gradient * (x - per_channel(call.operand(3), x.dim())), dims);
    }
    if (call.wants(1)) gradients[1] = product * r;
    if (call.wants(2)) gradients[2] = sum;
    if (call.wants(3)) gradients[3] = -sum * r * scale;
    if (call.wants(4)) gradients[4] = product * scale * r.pow(3) * -0.5;
    return gradients;
}

// Layers: the dims from the axis on.

graph::Shape normalized_dims(const KernelCall& call, const graph::Shape& shape) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t axis = from_front(call.integer("axis", -1), rank);
    return {shape.begin() + axis, shape.end()};
}

/// Scale and bias may broadcast to the dims that are normalized.
std::optional<at::Tensor> expanded(const at::Tensor& parameter, const graph::Shape& dims,
                                   at::ScalarType type) {
    if (!parameter.defined()) return std::nullopt;
    return parameter.to(type).expand(dims);
}

bool is_wanted(const KernelCall& call, std::size_t result) {
    return result < call.op.results.size() && call.op.results[result].is_wanted;
}

Tensors layer_norm(const KernelCall& call) {
    const bool has_statistics = is_wanted(call, 1) || is_wanted(call, 2);
    const at::Tensor x = has_statistics ? stashed(call.operand(0)) : call.operand(0);
    const graph::Shape dims = normalized_dims(call, x.sizes().vec());
    auto [y, mean, deviation] = at::native_layer_norm(
        x, dims, expanded(call.operand(1), dims, x.scalar_type()),
        expanded(call.operand(2), dims, x.scalar_type()), call.real("epsilon", 1e-5));
    return {y.to(call.operand(0).scalar_type()), mean, deviation};
}

/// Gradients of mean and inverse deviation, which are rarely used:  dm/dx = 1/n,  dr/dx = -r^3
/// (x-m)/n.
at::Tensor statistics_gradient(const BackwardCall& call, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& deviation,
                               const graph::Shape& dims) {
    const auto count = static_cast<double>(c10::multiply_integers(dims));
    at::Tensor gradient = at::zeros_like(x);
    const auto given = [&](std::size_t i) {
        return i < call.gradients.size() && call.gradients[i].defined();
    };
    if (given(1)) gradient = gradient + call.gradients[1] / count;
    if (given(2)) {
        gradient = gradient - call.gradients[2] * deviation.pow(3) * (x - mean) / count;
    }
    return gradient;
}

/// Mean and inverse deviation are taken again where they are no results, and so not saved.
Tensors layer_norm_backward(const BackwardCall& call) {
    const at::Tensor& x = call.operand(0);
    const graph::Shape dims = normalized_dims(call, x.sizes().vec());
    at::Tensor mean = call.results.size() > 1 ? call.results[1] : at::Tensor();
    at::Tensor deviation = call.results.size() > 2 ? call.results[2] : at::Tensor();
    if (!mean.defined() || !deviation.defined()) {
        std::tie(std::ignore, mean, deviation) =
            at::native_layer_norm(x, dims, std::nullopt, std::nullopt, call.real("epsilon", 1e-5));
    }
    Tensors gradients(call.wanted.size());
    const auto scale = expanded(call.operand(1), dims, x.scalar_type());
    if (call.gradients[0].defined()) {
        auto [data, of_scale, of_bias] = at::native_layer_norm_backward(
            call.gradients[0].contiguous(), x, dims, mean, deviation,
            scale ? std::optional(scale->contiguous()) : std::nullopt, at::zeros(dims, x.options()),
            {call.wants(0), call.wants(1), call.wants(2)});
        if (call.wants(0)) gradients[0] = data;
        if (call.wants(1)) gradients[1] = unbroadcast(of_scale, call.operand_shapes[1]);
        if (call.wants(2)) gradients[2] = unbroadcast(of_bias, call.operand_shapes[2]);
    }
    const bool has_more = call.gradients.size() > 1 &&
                          std::ranges::any_of(call.gradients.subspan(1), &at::Tensor::defined);
    if (has_more && call.wants(0)) {
        const at::Tensor more = statistics_gradient(call, x, mean, deviation, dims);
        gradients[0] = gradients[0].defined() ? gradients[0] + more : more;
    }
    return gradients;
}

Tensors rms_norm(const KernelCall& call) {
    const at::Tensor x = stashed(call.operand(0));
    graph::Shape dims;
    for (std::int64_t dim = from_front(call.integer("axis", -1), x.dim()); dim < x.dim(); ++dim) {
        dims.push_back(dim);
    }
    const at::Tensor square = at::mean(x * x, dims, /*keepdim=*/true);
    const at::Tensor normal = x * (square + call.real("epsilon", 1e-5)).rsqrt();
    return {normal.to(call.operand(0).scalar_type()) * call.operand(1)};
}

Tensors instance_norm(const KernelCall& call) {
    return {at::instance_norm(call.operand(0), call.operand(1), call.operand(2), std::nullopt,
                              std::nullopt, /*use_input_stats=*/true, 0.1,
                              call.real("epsilon", 1e-5), /*cudnn_enabled=*/true)};
}

/// Before opset 21 scale and bias were per group.
Tensors group_norm(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const std::int64_t groups = call.integer("num_groups", 1);
    const auto repeated = [&](std::size_t operand) {
        const at::Tensor& parameter = call.operand(operand);
        const std::int64_t channels = x.size(1);
        if (parameter.numel() == channels) return parameter;
        return parameter.repeat_interleave(channels / parameter.numel());
    };
    return {at::group_norm(x, groups, repeated(1), repeated(2), call.real("epsilon", 1e-5))};
}

//     y = x / (bias + alpha/size * (sum of squares of `size` channels around))^beta
Tensors local_response_norm(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const std::int64_t size = call.integer("size", 1);
    const std::int64_t before = (size - 1) / 2;
    graph::Shape pads(static_cast<std::size_t>(2 * (x.dim() - 1)), 0);
    pads[pads.size() - 2] = before;
    pads[pads.size() - 1] = size - 1 - before;
    const at::Tensor squares = at::constant_pad_nd(x * x, pads);
    at::Tensor sum = squares.narrow(1, 0, x.size(1));
    for (std::int64_t i = 1; i < size; ++i) sum = sum + squares.narrow(1, i, x.size(1));
    const double alpha = call.real("alpha", 1e-4) / static_cast<double>(size);
    return {x * (sum * alpha + call.real("bias", 1.0)).pow(-call.real("beta", 0.75))};
}

Tensors mean_variance_norm(const KernelCall& call) {
    constexpr double kSmallest = 1e-9;  // added to the deviation
    const at::Tensor& x = call.operand(0);
    graph::Shape axes = call.op.attributes.get_ints("axes");
    if (axes.empty()) axes = {0, 2, 3};
    const at::Tensor centered = x - at::mean(x, axes, /*keepdim=*/true);
    const at::Tensor deviation = at::mean(centered * centered, axes, /*keepdim=*/true).sqrt();
    return {centered / (deviation + kSmallest)};
}

}  // namespace

std::span<const KernelRow> normalization_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "BatchNormalization",
                  .forward = batch_norm,
                  .backward = batch_norm_backward,
                  .expects = "n c ..., #c, #c, #c, #c"},
        KernelRow{.type = "GroupNormalization", .forward = group_norm},
        KernelRow{.type = "InstanceNormalization",
                  .forward = instance_norm,
                  .expects = "n c ..., #c, #c"},
        KernelRow{.type = "LRN", .forward = local_response_norm},
        KernelRow{
            .type = "LayerNormalization", .forward = layer_norm, .backward = layer_norm_backward},
        KernelRow{.type = "MeanVarianceNormalization", .forward = mean_variance_norm},
        KernelRow{.type = "RMSNormalization", .forward = rms_norm},
    };
    return kRows;
}

}  // namespace partita::runtime
