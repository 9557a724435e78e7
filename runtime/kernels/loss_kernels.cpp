// SPDX-License-Identifier: Apache-2.0
//
// Losses of scores [n c d...] and labels [n d...]. A mean divides by the sum of the weights of the
// labels, which does not count those that are ignored.
#include <array>
#include <optional>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

/// No label is ignored unless the op says which.
constexpr std::int64_t kNothingIgnored = -100;

std::int64_t loss_reduction_of(const KernelCall& call) {
    const std::string reduction = call.text("reduction", "mean");
    return reduction == "none"  ? at::Reduction::None
           : reduction == "sum" ? at::Reduction::Sum
                                : at::Reduction::Mean;
}

at::Tensor negative_log_likelihood(const KernelCall& call, const at::Tensor& log_probabilities) {
    std::optional<at::Tensor> weights;
    if (call.has(2)) weights = call.operand(2);
    return at::nll_loss_nd(log_probabilities, call.operand(1).to(at::kLong), weights,
                           loss_reduction_of(call), call.integer("ignore_index", kNothingIgnored));
}

Tensors nll_loss(const KernelCall& call) {
    return {negative_log_likelihood(call, call.operand(0))};
}

Tensors softmax_cross_entropy(const KernelCall& call) {
    const at::Tensor log_probabilities = at::log_softmax(call.operand(0), 1);
    return {negative_log_likelihood(call, log_probabilities), log_probabilities};
}

}  // namespace

std::span<const KernelRow> loss_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "NegativeLogLikelihoodLoss", .forward = nll_loss},
        KernelRow{.type = "SoftmaxCrossEntropyLoss", .forward = softmax_cross_entropy},
    };
    return kRows;
}

}  // namespace partita::runtime
