// SPDX-License-Identifier: Apache-2.0
//
// What is computed along one axis: softmax and its relatives, running sums and products, positions
// of extremes.
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

// Softmax, LogSoftmax, Hardmax. Before opset 13 they saw a matrix: dims before the axis, dims from
// it on.
struct Flattened {
    at::Tensor x;
    std::int64_t axis = -1;
};

Flattened flattened(const KernelCall& call, const at::Tensor& x) {
    if (call.op.opset >= 13) return {x, call.integer("axis", -1)};
    const std::int64_t axis = from_front(call.integer("axis", 1), x.dim());
    std::int64_t rows = 1;
    for (std::int64_t dim = 0; dim < axis; ++dim) rows *= x.size(dim);
    return {x.reshape({rows, rows == 0 ? 0 : x.numel() / rows}), 1};
}

Tensors softmax(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const Flattened flat = flattened(call, x);
    return {at::softmax(flat.x, flat.axis).reshape_as(x)};
}

Tensors softmax_backward(const BackwardCall& call) {
    const at::Tensor& y = call.results[0];
    const Flattened flat = flattened(call, y);
    const at::Tensor gradient = call.gradients[0].reshape_as(flat.x);
    const auto axis = from_front(flat.axis, flat.x.dim());
    return {at::_softmax_backward_data(gradient, flat.x, axis, y.scalar_type()).reshape_as(y)};
}

Tensors log_softmax(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const Flattened flat = flattened(call, x);
    return {at::log_softmax(flat.x, flat.axis).reshape_as(x)};
}

Tensors log_softmax_backward(const BackwardCall& call) {
    const at::Tensor& y = call.results[0];
    const Flattened flat = flattened(call, y);
    const at::Tensor gradient = call.gradients[0].reshape_as(flat.x);
    const auto axis = from_front(flat.axis, flat.x.dim());
    return {at::_log_softmax_backward_data(gradient, flat.x, axis, y.scalar_type()).reshape_as(y)};
}

/// One at the first of the largest elements.
Tensors hardmax(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const Flattened flat = flattened(call, x);
    const at::Tensor largest = at::argmax(flat.x, flat.axis, /*keepdim=*/true);
    return {at::zeros_like(flat.x).scatter(flat.axis, largest, 1).reshape_as(x)};
}

using Running = at::Tensor (*)(const at::Tensor&, std::int64_t, std::optional<at::ScalarType>);

/// `neutral` stands in front when the element itself does not count.
template <Running kRunning, int kNeutral>
Tensors running(const KernelCall& call) {
    at::Tensor x = call.operand(0);
    const auto type = x.scalar_type();
    const std::int64_t axis = from_front(call.integers(1).front(), x.dim());
    const bool is_reverse = call.integer("reverse", 0) != 0;
    if (is_reverse) x = x.flip({axis});
    if (call.integer("exclusive", 0) != 0 && x.size(axis) > 0) {
        graph::Shape first = x.sizes().vec();
        first[static_cast<std::size_t>(axis)] = 1;
        x = at::cat({at::full(first, kNeutral, x.options()), x.narrow(axis, 0, x.size(axis) - 1)},
                    axis);
    }
    const at::Tensor result = kRunning(x, axis, type);
    return {is_reverse ? result.flip({axis}) : result};
}

using Position = at::Tensor (*)(const at::Tensor&, std::optional<std::int64_t>, bool);

template <Position kPosition>
Tensors position(const KernelCall& call) {
    at::Tensor x = ordered(call.operand(0));
    const std::int64_t axis = from_front(call.integer("axis", 0), x.dim());
    const bool keeps = call.integer("keepdims", 1) != 0;
    if (call.integer("select_last_index", 0) == 0) return {kPosition(x, axis, keeps)};
    const std::int64_t last = x.size(axis) - 1;
    return {last - kPosition(x.flip({axis}), axis, keeps)};
}

/// A norm of 0 leaves zeros, which it divides by 1.
Tensors lp_normalization(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const at::Tensor norm = at::norm(x, call.integer("p", 2), {call.integer("axis", -1)}, true);
    return {x / at::where(norm.eq(0), 1, norm)};
}

}  // namespace

std::span<const KernelRow> axis_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "ArgMax", .forward = position<at::argmax>},
        KernelRow{.type = "ArgMin", .forward = position<at::argmin>},
        KernelRow{.type = "CumProd",
                  .forward = widened<running<at::cumprod, 1>>,
                  .on_host = bits({1}),
                  .expects = ", one"},
        KernelRow{.type = "CumSum",
                  .forward = widened<running<at::cumsum, 0>>,
                  .on_host = bits({1}),
                  .expects = ", one"},
        KernelRow{.type = "Hardmax", .forward = hardmax},
        KernelRow{.type = "LogSoftmax", .forward = log_softmax, .backward = log_softmax_backward},
        KernelRow{.type = "LpNormalization", .forward = lp_normalization},
        KernelRow{.type = "Softmax", .forward = softmax, .backward = softmax_backward},
    };
    return kRows;
}

}  // namespace partita::runtime
