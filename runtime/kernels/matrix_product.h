// SPDX-License-Identifier: Apache-2.0
//
// The product of two matrices, or of stacks of them.
//
// ATen gives float32 products on CPUs to MKL, which is slow where the CPU is not Intel's: on one
// AMD EPYC core (AVX-512) oneDNN, which ATen carries as well and which convolutions use, is 1.5 to
// 4 times as fast, in all three products of a layer (docs/runtime.md has the numbers). It takes
// some 8 us to start, so small products, and those with vectors, stay with ATen's choice. So do
// other types and devices, and products that autograd must see: oneDNN's has no derivative.
// Matrices with gaps are copied first, or stay with ATen where that does not pay: oneDNN's product
// of them is right, and takes 900 times as long.
//
// On GPUs tensor cores load 16 bytes at once, which rows must begin at multiples of: others are
// given room first where that pays, such as the 50,257 columns of GPT-2's vocabulary in bfloat16.
//
// Threads: any number. Errors: what ATen throws.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace partita::runtime {

/// Does the product of two matrices run on oneDNN?
bool suits_one_dnn(const at::Tensor& a, const at::Tensor& b);

/// a b, for a [m k] and b [k n], in any strides.
at::Tensor matrix_product(const at::Tensor& a, const at::Tensor& b);

/// The same by ATen, of copies in which rows are multiples of `multiple` elements, where they are
/// not. A view of a larger matrix.
at::Tensor product_with_room(const at::Tensor& a, const at::Tensor& b, std::int64_t multiple);

/// For y = a b and its gradient g: that of a, g b^T, and that of b, a^T g. Room for g is made once.
struct ProductGradients {
    at::Tensor a;
    at::Tensor b;
};
ProductGradients product_gradients(const at::Tensor& a, const at::Tensor& b, const at::Tensor& g);
/// As product_with_room().
ProductGradients gradients_with_room(const at::Tensor& a, const at::Tensor& b, const at::Tensor& g,
                                     std::int64_t multiple);

/// beta c + alpha a b, for c that broadcasts to the product.
at::Tensor product_and_sum(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                           const at::Scalar& beta, const at::Scalar& alpha);

/// a b as ONNX's MatMul, which is numpy's: stacks of matrices broadcast, vectors are rows or
/// columns.
at::Tensor stacked_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace partita::runtime
