// SPDX-License-Identifier: Apache-2.0
//
// Element types that ATen holds but hardly computes with: uint16, uint32, uint64 and 8-bit floats.
// Kernels compute in a type that holds every element, and return to the first one:
//
//     uint16, uint32, uint64 -> int64    exact; uint64 modulo 2^64, so what depends on order or
//                                        division uses the functions here
//     float8...              -> float32  exact; rounded once, on the way back
#pragma once

#include <ATen/core/Tensor.h>

#include "graph/dtype.h"
#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// As what ATen holds such elements. Throws std::runtime_error when it does not hold them.
at::ScalarType held_type(graph::DType dtype);

at::ScalarType computable_type(at::ScalarType type);
/// The tensor itself when ATen computes with its type.
at::Tensor computable(const at::Tensor& tensor);

/// The kernel on computable operands; its results are of the type of operand 0 again.
Tensors run_widened(ForwardKernel kernel, const KernelCall& call);

template <ForwardKernel kKernel>
Tensors widened(const KernelCall& call) {
    return run_widened(kKernel, call);
}

/// Integers that are in the order of the elements: uint64 by its distance from 2^63.
at::Tensor ordered(const at::Tensor& tensor);
/// What was uint64 again.
at::Tensor from_ordered(const at::Tensor& tensor);

/// uint64 numbers held as int64: a / b, rounded down, and a >> b.
at::Tensor divide_unsigned(const at::Tensor& a, const at::Tensor& b);
at::Tensor shift_right_unsigned(const at::Tensor& a, const at::Tensor& b);

/// The smallest and the largest value; of a floating-point type the finite ones.
double lowest_of(graph::DType dtype);
double highest_of(graph::DType dtype);

/// Numbers rounded half to even and clamped to the integers of the type, and of that type.
at::Tensor saturated(const at::Tensor& numbers, graph::DType dtype);

}  // namespace partita::runtime
