// SPDX-License-Identifier: Apache-2.0
//
// How the values of several ranks become one, element by element, for every type that ATen has:
//
//     float16, bfloat16, float8   in float32, rounded once at the end
//     other floats, complex       in their own type; complex numbers have no max and min
//     integers                    modulo 2^bits
//     bool                        sum and max are "or", product and min are "and"
//
// Values combine in the order in which they are given, so that equal inputs give equal bits. A NaN
// in a max or min stays.
//
// Threads: pure functions. On the CPU in blocks that stay in the cache and below the size from
// which ATen would start threads of its own; on a device on the current stream. Errors: c10::Error
// for a type that cannot be combined that way.
#pragma once

#include <cstdint>
#include <span>

#include <ATen/core/Tensor.h>

#include "graph/operators/op_rule.h"

namespace partita::runtime {

/// In which values of that type are combined.
at::ScalarType accumulation_type(at::ScalarType type);

/// A new flat tensor on `device`: the first value, in the type of accumulation.
at::Tensor start_combining(const at::Tensor& first, graph::Combine how, at::Device device);
/// Changes `sum`, which start_combining() made. `part`: of the type given there, or of sum's.
void combine_with(const at::Tensor& sum, const at::Tensor& part, graph::Combine how);
/// Writes the result, rounded, to a tensor of the original type.
void finish_combining(const at::Tensor& into, const at::Tensor& sum, graph::Combine how);

/// Every tensor of `into` gets what all of `parts` give together. All flat, of one type and length.
/// Parts may be among `into`. Runs on the device of the first of `into`.
void combine(std::span<const at::Tensor> into, std::span<const at::Tensor> parts,
             graph::Combine how);

/// The bytes of a contiguous tensor to another of the same size, on any device.
void copy_tensor(const at::Tensor& to, const at::Tensor& from);

}  // namespace partita::runtime
