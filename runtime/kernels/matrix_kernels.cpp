// SPDX-License-Identifier: Apache-2.0
//
// Matrix products. Quantized ones are computed in float64, exact for sums below 2^53; so are other
// integer ones on GPUs, for which ATen has none.
#include <array>
#include <cmath>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/elements.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/matrix_product.h"
#include "runtime/kernels/operands.h"

namespace partita::runtime {

namespace {

bool has_products(const at::Tensor& x) {
    return x.is_cpu() || !at::isIntegralType(x.scalar_type(), /*includeBool=*/true);
}

at::Tensor multipliable(const at::Tensor& x) {
    return has_products(x) ? x : x.to(at::kDouble);
}

/// Of multipliable operands the result in their own type; integers wrap around.
at::Tensor as_operand(const at::Tensor& product, const at::Tensor& operand) {
    return has_products(operand) ? product : product.to(at::kLong).to(operand.scalar_type());
}

Tensors matmul(const KernelCall& call) {
    const at::Tensor& a = call.operand(0);
    return {as_operand(stacked_product(multipliable(a), multipliable(call.operand(1))), a)};
}

/// Dims before the last, together: a product with one matrix is one product.
at::Tensor as_rows(const at::Tensor& x) {
    return x.reshape({-1, x.size(-1)});
}

/// dA = dY B^T, for A [... m k] and B [... k n].
at::Tensor left_gradient(const at::Tensor& gradient, const at::Tensor& b,
                         const graph::Shape& shape) {
    return unbroadcast(stacked_product(gradient, b.transpose(-2, -1)), shape);
}

/// dB = A^T dY; of one matrix B the sum over all batches, as one product.
at::Tensor right_gradient(const at::Tensor& a, const at::Tensor& gradient,
                          const graph::Shape& shape) {
    if (shape.size() == 2 && a.dim() == gradient.dim()) {
        return matrix_product(as_rows(a).t(), as_rows(gradient));
    }
    return unbroadcast(at::matmul(a.transpose(-2, -1), gradient), shape);
}

Tensors matmul_backward(const BackwardCall& call) {
    graph::Shape a_shape = call.operand_shapes[0];
    graph::Shape b_shape = call.operand_shapes[1];
    at::Tensor a = call.operand(0);
    at::Tensor b = call.operand(1);
    at::Tensor gradient = call.gradients[0];
    if (b_shape.size() == 1) {  // a column, of which the result has no dim
        if (b.defined()) b = b.unsqueeze(-1);
        b_shape.push_back(1);
        gradient = gradient.unsqueeze(-1);
    }
    if (a_shape.size() == 1) {  // a row
        if (a.defined()) a = a.unsqueeze(0);
        a_shape.insert(a_shape.begin(), 1);
        gradient = gradient.unsqueeze(-2);
    }
    Tensors gradients(call.wanted.size());
    if (call.wants(0) && call.wants(1) && b_shape.size() == 2 && a.dim() == gradient.dim()) {
        const auto [of_a, of_b] = product_gradients(as_rows(a), b, as_rows(gradient));
        gradients[0] = of_a.reshape(call.operand_shapes[0]);
        gradients[1] = of_b.reshape(call.operand_shapes[1]);
        return gradients;
    }
    if (call.wants(0)) {
        gradients[0] = left_gradient(gradient, b, a_shape).reshape(call.operand_shapes[0]);
    }
    if (call.wants(1)) {
        gradients[1] = right_gradient(a, gradient, b_shape).reshape(call.operand_shapes[1]);
    }
    return gradients;
}

// MatMul with one matrix, and a bias [n] that one part of a split reduction has.

Tensors linear(const KernelCall& call) {
    const at::Tensor& x = call.operand(0);
    const at::Tensor& weight = call.operand(1);
    if (!call.has(2)) return matmul(call);
    auto shape = x.sizes().vec();
    shape.back() = weight.size(1);
    const at::Tensor y = product_and_sum(multipliable(call.operand(2)), as_rows(multipliable(x)),
                                         multipliable(weight), 1, 1);
    return {as_operand(y, x).reshape(shape)};
}

Tensors linear_backward(const BackwardCall& call) {
    Tensors gradients = matmul_backward(call);
    if (call.wants(2)) {
        gradients[2] = unbroadcast(call.gradients[0], call.operand_shapes[2]);
    }
    return gradients;
}

// Gemm: alpha op(A) op(B) + beta C, op(X) = X or X^T.

struct GemmForm {
    bool a_transposed;
    bool b_transposed;
    at::Scalar alpha;
    at::Scalar beta;
};

/// Factors of integer products are integers.
at::Scalar factor_of(const KernelCall& call, std::string_view name, bool is_integral) {
    const double factor = call.real(name, 1.0);
    return is_integral ? at::Scalar(static_cast<std::int64_t>(factor)) : at::Scalar(factor);
}

GemmForm gemm_form(const KernelCall& call, at::ScalarType type) {
    const bool is_integral = at::isIntegralType(type, /*includeBool=*/false);
    return {.a_transposed = call.integer("transA", 0) != 0,
            .b_transposed = call.integer("transB", 0) != 0,
            .alpha = factor_of(call, "alpha", is_integral),
            .beta = factor_of(call, "beta", is_integral)};
}

at::Tensor turned(const at::Tensor& matrix, bool is_transposed) {
    return is_transposed ? matrix.t() : matrix;
}

at::Tensor scaled(const at::Tensor& x, const at::Scalar& factor) {
    return factor.to<double>() == 1.0 ? x : x * factor;
}

Tensors gemm(const KernelCall& call) {
    const GemmForm form = gemm_form(call, call.operand(0).scalar_type());
    const at::Tensor a = turned(multipliable(call.operand(0)), form.a_transposed);
    const at::Tensor b = turned(multipliable(call.operand(1)), form.b_transposed);
    const at::Tensor y =
        call.has(2) ? product_and_sum(multipliable(call.operand(2)), a, b, form.beta, form.alpha)
                    : scaled(matrix_product(a, b), form.alpha);
    return {as_operand(y, call.operand(0))};
}

Tensors gemm_backward(const BackwardCall& call) {
    const at::Tensor& gradient = call.gradients[0];
    const GemmForm form = gemm_form(call, gradient.scalar_type());
    Tensors gradients(call.wanted.size());
    if (call.wants(0)) {
        const at::Tensor b = turned(call.operand(1), form.b_transposed);
        gradients[0] = scaled(
            form.a_transposed ? matrix_product(b, gradient.t()) : matrix_product(gradient, b.t()),
            form.alpha);
    }
    if (call.wants(1)) {
        const at::Tensor a = turned(call.operand(0), form.a_transposed);
        gradients[1] = scaled(
            form.b_transposed ? matrix_product(gradient.t(), a) : matrix_product(a.t(), gradient),
            form.alpha);
    }
    if (call.wants(2)) {
        gradients[2] = scaled(unbroadcast(gradient, call.operand_shapes[2]), form.beta);
    }
    return gradients;
}

// Scales and zero points: one number, one for each row of the left or column of the right matrix,
// or of the matrices' own number of dims.

at::Tensor of_rows(const at::Tensor& parameter) {
    const at::Tensor number = parameter.to(at::kDouble);
    return number.dim() == 1 && number.numel() > 1 ? number.unsqueeze(-1) : number;
}

at::Tensor centered(const KernelCall& call, std::size_t operand, std::size_t zero_point,
                    bool has_rows) {
    at::Tensor x = call.operand(operand).to(at::kDouble);
    if (!call.has(zero_point)) return x;
    const at::Tensor& zero = call.operand(zero_point);
    return x - (has_rows ? of_rows(zero) : zero.to(at::kDouble));
}

Tensors matmul_integer(const KernelCall& call) {
    const at::Tensor product = at::matmul(centered(call, 0, 2, /*has_rows=*/true),
                                          centered(call, 1, 3, /*has_rows=*/false));
    return {product.to(at::kInt)};
}

// a, its scale and zero point, b, its scale and zero point, scale and zero point of the result
Tensors quantized_matmul(const KernelCall& call) {
    const at::Tensor product = at::matmul(centered(call, 0, 2, /*has_rows=*/true),
                                          centered(call, 3, 5, /*has_rows=*/false));
    const at::Tensor scale =
        of_rows(call.operand(1)) * call.operand(4).to(at::kDouble) / of_rows(call.operand(6));
    const at::Tensor rounded = at::round(product * scale) + of_rows(call.operand(7));
    return {saturated(rounded, call.op.results[0].dtype)};
}

Tensors einsum(const KernelCall& call) {
    Tensors operands;
    for (const at::Tensor& operand : call.operands) operands.push_back(multipliable(operand));
    return {as_operand(at::einsum(call.text("equation", ""), operands), call.operand(0))};
}

Tensors determinant(const KernelCall& call) {
    return {at::det(call.operand(0))};
}

}  // namespace

std::span<const KernelRow> matrix_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Det", .forward = determinant},
        KernelRow{.type = "Einsum", .forward = einsum},
        KernelRow{.type = "Gemm", .forward = gemm, .backward = gemm_backward},
        KernelRow{.type = "Linear",
                  .forward = widened<linear>,
                  .backward = linear_backward,
                  .domain = "partita"},
        KernelRow{.type = "MatMul", .forward = widened<matmul>, .backward = matmul_backward},
        KernelRow{.type = "MatMulInteger", .forward = matmul_integer},
        KernelRow{.type = "QLinearMatMul", .forward = quantized_matmul},
    };
    return kRows;
}

}  // namespace partita::runtime
