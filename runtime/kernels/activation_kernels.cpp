// SPDX-License-Identifier: Apache-2.0
//
// Activations, as ONNX defines them, with its defaults.
#include <array>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

/// exp(-40) is below the last place of float64: from there on log(1 + exp(x)) = x.
constexpr double kSoftplusIsLinear = 40;

Tensors celu(const KernelCall& call) {
    return {at::celu(call.operand(0), call.real("alpha", 1.0))};
}

Tensors elu(const KernelCall& call) {
    return {at::elu(call.operand(0), call.real("alpha", 1.0))};
}

Tensors gelu(const KernelCall& call) {
    return {at::gelu(call.operand(0), call.text("approximate", "none"))};
}
Tensors gelu_backward(const BackwardCall& call) {
    return {
        at::gelu_backward(call.gradients[0], call.operand(0), call.text("approximate", "none"))};
}

Tensors hard_sigmoid(const KernelCall& call) {
    const at::Tensor line = call.operand(0) * call.real("alpha", 0.2) + call.real("beta", 0.5);
    return {at::clamp(line, 0, 1)};
}

Tensors hard_swish(const KernelCall& call) {
    return {at::hardswish(call.operand(0))};
}

Tensors leaky_relu(const KernelCall& call) {
    return {at::leaky_relu(call.operand(0), call.real("alpha", 0.01))};
}

Tensors mish(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    return {x * at::tanh(at::softplus(x, 1, kSoftplusIsLinear))};
}

Tensors parametric_relu(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    return {at::where(x.lt(0), x * second_operand(call), x)};
}

Tensors relu(const KernelCall& call) {
    return {at::relu(call.operand(0))};
}
Tensors relu_backward(const BackwardCall& call) {
    return {at::threshold_backward(call.gradients[0], call.results[0], 0)};
}

Tensors selu(const KernelCall& call) {
    constexpr double kAlpha = 1.67326319217681884765625;
    constexpr double kGamma = 1.05070102214813232421875;
    return {at::elu(call.operand(0), call.real("alpha", kAlpha), call.real("gamma", kGamma))};
}

Tensors shrink(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const double bias = call.real("bias", 0.0);
    const double limit = call.real("lambd", 0.5);
    const at::Tensor outer = at::where(x.lt(-limit), x + bias, x - bias);
    return {at::where(x.abs().gt(limit), outer, 0).to(x.scalar_type())};
}

Tensors sigmoid(const KernelCall& call) {
    return {at::sigmoid(call.operand(0))};
}
Tensors sigmoid_backward(const BackwardCall& call) {
    return {at::sigmoid_backward(call.gradients[0], call.results[0])};
}

Tensors softplus(const KernelCall& call) {
    return {at::softplus(call.operand(0), 1, kSoftplusIsLinear)};
}

Tensors softsign(const KernelCall& call) {
    return {call.operand(0) / (call.operand(0).abs() + 1)};
}

at::Tensor swish_of(const at::Tensor& x, double alpha) {
    return alpha == 1.0 ? at::silu(x) : x * at::sigmoid(x * alpha);
}

Tensors swiglu(const KernelCall& call) {
    return {swish_of(call.operand(0), call.real("alpha", 1.0)) * call.operand(1)};
}

Tensors swish(const KernelCall& call) {
    return {swish_of(call.operand(0), call.real("alpha", 1.0))};
}

Tensors tanh(const KernelCall& call) {
    return {at::tanh(call.operand(0))};
}
Tensors tanh_backward(const BackwardCall& call) {
    return {at::tanh_backward(call.gradients[0], call.results[0])};
}

Tensors thresholded_relu(const KernelCall& call) {
    return {at::threshold(call.operand(0), call.real("alpha", 1.0), 0)};
}

}  // namespace

std::span<const KernelRow> activation_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Celu", .forward = celu},
        KernelRow{.type = "Elu", .forward = elu},
        KernelRow{.type = "Gelu", .forward = gelu, .backward = gelu_backward},
        KernelRow{.type = "HardSigmoid", .forward = hard_sigmoid},
        KernelRow{.type = "HardSwish", .forward = hard_swish},
        KernelRow{.type = "LeakyRelu", .forward = leaky_relu},
        KernelRow{.type = "Mish", .forward = mish},
        KernelRow{.type = "PRelu", .forward = parametric_relu},
        KernelRow{.type = "Relu", .forward = relu, .backward = relu_backward},
        KernelRow{.type = "Selu", .forward = selu},
        KernelRow{.type = "Shrink", .forward = shrink},
        KernelRow{.type = "Sigmoid", .forward = sigmoid, .backward = sigmoid_backward},
        KernelRow{.type = "Softplus", .forward = softplus},
        KernelRow{.type = "Softsign", .forward = softsign},
        KernelRow{.type = "SwiGLU", .forward = swiglu},
        KernelRow{.type = "Swish", .forward = swish},
        KernelRow{.type = "Tanh", .forward = tanh, .backward = tanh_backward},
        KernelRow{.type = "ThresholdedRelu", .forward = thresholded_relu},
    };
    return kRows;
}

}  // namespace partita::runtime
