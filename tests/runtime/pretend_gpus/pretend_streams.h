// SPDX-License-Identifier: Apache-2.0
//
// Streams and events of pretend GPUs (pretend_gpu.h), as ATen asks for them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "tests/runtime/pretend_gpus/stream_clocks.h"

namespace partita::runtime {

/// Not one of ATen's other spare types: autograd keeps to the streams of accelerators, and only
/// this one can be.
inline constexpr auto kPretendType = c10::DeviceType::PrivateUse1;
inline constexpr auto kPretendKey = c10::DispatchKey::PrivateUse1;

/// Of all pretend GPUs.
StreamClocks& clocks();

/// Of the calling thread.
c10::Device current_device();
StreamId current_stream(c10::Device device);

/// For registration; lives as long as the program.
c10::impl::DeviceGuardImplInterface* new_pretend_guard();

}  // namespace partita::runtime
