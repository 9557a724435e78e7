// SPDX-License-Identifier: Apache-2.0
//
// Tensors of pretend GPUs (pretend_gpu.h): their memory, and which stream uses it.
#pragma once

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "tests/runtime/pretend_gpus/stream_clocks.h"

namespace partita::runtime {

inline constexpr auto kPretendKind = c10::DeviceType::PrivateUse1;

StreamClocks& clocks();

/// Of this thread.
c10::DeviceIndex& current_gpu();
std::int64_t& current_stream(c10::DeviceIndex gpu);
StreamId current_of(c10::Device device);

bool is_pretend(const at::Tensor& tensor);

/// Addresses that it gives lie where no program has memory: they can be compared, not followed.
c10::Allocator& pretend_allocator();
at::Tensor new_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                      c10::Device device);

/// The same memory as a tensor on the CPU.
at::Tensor on_host(const at::Tensor& tensor);
/// What an operator has made, as a new tensor on the device.
at::Tensor moved(const at::Tensor& host, c10::Device device, const std::string& name);

Access access_of(const at::Tensor& tensor, bool writes);

}  // namespace partita::runtime
