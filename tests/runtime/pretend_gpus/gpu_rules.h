// SPDX-License-Identifier: Apache-2.0
//
// What ATen does not do on a GPU though it does it on a CPU, by the names of its operators.
// Source: ATen 2.11, aten/src/ATen/native/cuda and the TensorIterator configurations of native/.
#pragma once

#include <span>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace partita::runtime {

/// Must the host wait for the device: for an element, or for the extents of the results?
bool waits_on_gpus(std::string_view name);

/// Throws c10::Error for a tensor of another device that the operator would not take: only
/// pointwise ones take a number of the CPU.
void check_device(std::string_view name, const at::Tensor& tensor, at::Device device);

/// Throws c10::Error when the operator has no CUDA kernel for operands of these types.
void check_types(std::string_view name, std::span<const at::ScalarType> types);

}  // namespace partita::runtime
