// SPDX-License-Identifier: Apache-2.0
//
// Fourier transforms, windows and mel weights. A complex number is a last dim of 2, a real one of
// 1.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/WrapDimMinimal.h>

#include "runtime/kernels/expected.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

at::Tensor complex_of(const at::Tensor& data) {
    if (data.size(-1) == 2) return at::view_as_complex(data.contiguous());
    const at::Tensor real = data.select(-1, 0);
    return at::complex(real, at::zeros_like(real));
}

/// ATen has no transforms of 16-bit floats on the CPU.
at::Tensor widened(const at::Tensor& data) {
    const bool is_wide = data.scalar_type() == at::kFloat || data.scalar_type() == at::kDouble;
    return is_wide ? data : data.to(at::kFloat);
}

std::optional<std::int64_t> length_of(const KernelCall& call, std::size_t operand) {
    if (!call.has(operand)) return std::nullopt;
    return call.integers(operand).front();
}

// The axis is an attribute up to opset 19, then an operand.
Tensors dft(const KernelCall& call) {
    constexpr int kFirstWithOperand = 20;
    const at::Tensor& data = call.operand(0);
    const bool is_old = call.op.opset > 0 && call.op.opset < kFirstWithOperand;
    const std::int64_t given = is_old ? call.integer("axis", 1) : length_of(call, 2).value_or(-2);
    const std::int64_t axis = c10::maybe_wrap_dim(given, data.dim());
    const bool is_onesided = call.integer("onesided", 0) != 0;
    const bool is_inverse = call.integer("inverse", 0) != 0;
    const std::optional<std::int64_t> length = length_of(call, 1);
    const at::Tensor signal = complex_of(widened(data));
    if (is_inverse && is_onesided) {
        const std::int64_t full = length.value_or(2 * (data.size(axis) - 1));
        return {at::fft_irfft(signal, full, axis).unsqueeze(-1).to(data.scalar_type())};
    }
    at::Tensor result =
        is_inverse ? at::fft_ifft(signal, length, axis) : at::fft_fft(signal, length, axis);
    if (is_onesided) result = result.narrow(axis, 0, result.size(axis) / 2 + 1);
    return {at::view_as_real(result.resolve_conj()).to(data.scalar_type())};
}

// signal [n t 1 or 2], step, window [l], length l -> [n frames bins 2]
Tensors stft(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const std::int64_t step = call.integers(1).front();
    expect(step > 0, "operand 1: expected a step > 0");
    const bool has_window = call.has(2);
    const std::int64_t length =
        length_of(call, 3).value_or(has_window ? call.operand(2).size(0) : data.size(1));
    at::Tensor frames = widened(data).unfold(1, length, step).transpose(2, 3);  // [n f l c]
    if (has_window) frames = frames * call.operand(2).to(frames.scalar_type()).unsqueeze(1);
    at::Tensor result = at::fft_fft(complex_of(frames), std::nullopt, 2);
    const bool is_real = data.size(-1) == 1;
    if (call.integer("onesided", 1) != 0 && is_real) {
        result = result.narrow(2, 0, length / 2 + 1);
    }
    return {at::view_as_real(result).to(data.scalar_type())};
}

// --- windows -----------------------------------------------------------------------------------

/// w(x) = a - b cos(x) + c cos(2 x), one period over the window, or one less position.
template <double kA, double kB, double kC>
Tensors window(const KernelCall& call) {
    const std::int64_t size = call.integers(0).front();
    const std::int64_t period = call.integer("periodic", 1) != 0 ? size : size - 1;
    const auto options = at::TensorOptions().dtype(at::kDouble).device(call.device);
    const at::Tensor x =
        at::arange(size, options) * (2 * std::numbers::pi / static_cast<double>(period));
    const at::Tensor values = kA - kB * at::cos(x) + kC * at::cos(2 * x);
    return {values.to(scalar_type_of(call.op.results[0].dtype).value_or(at::kFloat))};
}

constexpr double kHamming = 25.0 / 46.0;

// --- mel weights -------------------------------------------------------------------------------

double mel_of(double hertz) {
    return 2595 * std::log10(1 + hertz / 700);
}

double hertz_of(double mel) {
    return 700 * (std::pow(10.0, mel / 2595) - 1);
}

/// Triangles over the spectrum's bins, equally wide on the mel scale: [bins mels].
Tensors mel_weight_matrix(const KernelCall& call) {
    const auto real = [&](std::size_t operand) { return call.operand(operand).item().toDouble(); };
    const std::int64_t mels = call.integers(0).front();
    const std::int64_t length = call.integers(1).front();
    constexpr std::int64_t kMost = std::int64_t{1} << 31U;
    expect(mels >= 0 && mels <= kMost && length >= 0 && length <= kMost,
           "operands 0 and 1: expected numbers of bins from 0 to 2^31");
    expect(real(2) > 0, "operand 2: expected a sample rate > 0");
    const double low = mel_of(real(3));
    const double step = (mel_of(real(4)) - low) / static_cast<double>(mels + 2);
    std::vector<std::int64_t> edges;
    edges.reserve(static_cast<std::size_t>(mels + 2));
    for (std::int64_t i = 0; i < mels + 2; ++i) {
        check_time();
        const double hertz = hertz_of(low + static_cast<double>(i) * step);
        const double edge = std::floor(static_cast<double>(length + 1) * hertz / real(2));
        expect(std::abs(edge) <= static_cast<double>(kMost),
               "operands 3 and 4: expected frequencies near those of the spectrum");
        edges.push_back(static_cast<std::int64_t>(edge));
    }
    const std::int64_t bins = length / 2 + 1;
    std::vector<double> weights(static_cast<std::size_t>(bins * mels), 0);
    for (std::int64_t mel = 0; mel < mels; ++mel) {
        check_time();
        const std::int64_t* const edge = &edges[static_cast<std::size_t>(mel)];
        const auto at = [&](std::int64_t bin) -> double& {
            return weights[static_cast<std::size_t>(bin * mels + mel)];
        };
        const auto rise = static_cast<double>(edge[1] - edge[0]);
        const auto fall = static_cast<double>(edge[2] - edge[1]);
        if (rise == 0 && edge[1] >= 0 && edge[1] < bins) at(edge[1]) = 1;
        for (std::int64_t bin = std::max<std::int64_t>(edge[0], 0);
             rise > 0 && bin <= std::min(edge[1], bins - 1); ++bin) {
            at(bin) = static_cast<double>(bin - edge[0]) / rise;
        }
        for (std::int64_t bin = std::max<std::int64_t>(edge[1], 0);
             fall > 0 && bin < std::min(edge[2], bins); ++bin) {
            at(bin) = static_cast<double>(edge[2] - bin) / fall;
        }
    }
    return {call.sent(at::tensor(weights, at::kDouble)
                          .reshape({bins, mels})
                          .to(scalar_type_of(call.op.results[0].dtype).value_or(at::kFloat)))};
}

}  // namespace

std::span<const KernelRow> signal_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "BlackmanWindow",
                  .forward = window<0.42, 0.5, 0.08>,
                  .on_host = bits({0}),
                  .expects = "one"},
        KernelRow{.type = "DFT", .forward = dft, .on_host = bits({1, 2}), .expects = ", one, one"},
        KernelRow{.type = "HammingWindow",
                  .forward = window<kHamming, 1 - kHamming, 0.0>,
                  .on_host = bits({0}),
                  .expects = "one"},
        KernelRow{.type = "HannWindow",
                  .forward = window<0.5, 0.5, 0.0>,
                  .on_host = bits({0}),
                  .expects = "one"},
        KernelRow{.type = "MelWeightMatrix",
                  .forward = mel_weight_matrix,
                  .on_host = bits({0, 1, 2, 3, 4}),
                  .expects = "one, one, one, one, one"},
        KernelRow{.type = "STFT",
                  .forward = stft,
                  .on_host = bits({1, 3}),
                  .expects = "n t c, one, , one"},
    };
    return kRows;
}

}  // namespace partita::runtime
