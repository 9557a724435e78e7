// SPDX-License-Identifier: Apache-2.0
//
// The optimizers of ai.onnx.preview.training. Operands: learning rate R, count of updates T, then
// the tensors X, their gradients G and each state, all X first. Results: new X, then each new
// state.
//
// Source: ONNX operators of domain ai.onnx.preview.training, version 1.
#include <array>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";
constexpr std::size_t kFirst = 2;  // operand X

/// Operand number `group` (X, G, states) of tensor `i` of `count`.
const at::Tensor& member(const KernelCall& call, std::size_t group, std::size_t count,
                         std::size_t i) {
    return call.operand(kFirst + group * count + i);
}

/// `update(i)` gives new X and states of tensor i; results are ordered by these.
template <class Update>
Tensors for_each_tensor(const KernelCall& call, std::size_t groups, Update update) {
    const std::size_t count = (call.operands.size() - kFirst) / groups;
    Tensors results(count * (groups - 1));
    for (std::size_t i = 0; i < count; ++i) {
        Tensors updated = update(i, count);
        for (std::size_t j = 0; j < updated.size(); ++j) {
            results[j * count + i] = std::move(updated[j]);
        }
    }
    return results;
}

/// The gradient with that of the penalty norm_coefficient/2 |X|^2.
at::Tensor regularized(const KernelCall& call, const at::Tensor& x, const at::Tensor& gradient) {
    return gradient + x * call.real("norm_coefficient", 0.0);
}

Tensors adagrad(const KernelCall& call) {
    const at::Tensor count_of_updates = call.operand(1).to(call.operand(0).scalar_type());
    const at::Tensor rate =
        call.operand(0) / (count_of_updates * call.real("decay_factor", 0.0) + 1);
    return for_each_tensor(call, 3, [&](std::size_t i, std::size_t count) -> Tensors {
        const at::Tensor& x = member(call, 0, count, i);
        const at::Tensor gradient = regularized(call, x, member(call, 1, count, i));
        const at::Tensor squares = member(call, 2, count, i) + gradient * gradient;
        const at::Tensor step = gradient / (squares.sqrt() + call.real("epsilon", 1e-6));
        return {x - rate * step, squares};
    });
}

// The first updates are corrected for states that began at zero.
Tensors adam(const KernelCall& call) {
    const double alpha = call.real("alpha", 0.9);
    const double beta = call.real("beta", 0.999);
    const at::Tensor t = call.operand(1).to(at::kDouble);
    const at::Tensor correction = at::where(
        t.gt(0), (1 - at::pow(beta, t)).sqrt() / (1 - at::pow(alpha, t)), at::ones_like(t));
    const at::Tensor rate = call.operand(0) * correction.to(call.operand(0).scalar_type());
    return for_each_tensor(call, 4, [&](std::size_t i, std::size_t count) -> Tensors {
        const at::Tensor& x = member(call, 0, count, i);
        const at::Tensor gradient = regularized(call, x, member(call, 1, count, i));
        const at::Tensor mean = member(call, 2, count, i) * alpha + gradient * (1 - alpha);
        const at::Tensor square =
            member(call, 3, count, i) * beta + gradient * gradient * (1 - beta);
        const at::Tensor step = mean / (square.sqrt() + call.real("epsilon", 1e-6));
        const at::Tensor updated = x - rate * step;
        return {updated * (1 - call.real("norm_coefficient_post", 0.0)), mean, square};
    });
}

Tensors momentum(const KernelCall& call) {
    const double alpha = call.real("alpha", 0.0);
    const bool is_nesterov = call.text("mode", "standard") == "nesterov";
    const at::Tensor& rate = call.operand(0);
    const auto type = rate.scalar_type();
    const at::Tensor beta = at::where(call.operand(1).gt(0), call.real("beta", 1.0), 1.0).to(type);
    return for_each_tensor(call, 3, [&](std::size_t i, std::size_t count) -> Tensors {
        const at::Tensor& x = member(call, 0, count, i);
        const at::Tensor gradient = regularized(call, x, member(call, 1, count, i));
        const at::Tensor velocity = member(call, 2, count, i) * alpha + gradient * beta;
        const at::Tensor step = is_nesterov ? gradient + velocity * alpha : velocity;
        return {x - rate * step, velocity};
    });
}

}  // namespace

std::span<const KernelRow> optimizer_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Adagrad", .forward = adagrad, .domain = kDomain},
        KernelRow{.type = "Adam", .forward = adam, .domain = kDomain},
        KernelRow{.type = "Momentum", .forward = momentum, .domain = kDomain},
    };
    return kRows;
}

}  // namespace partita::runtime
