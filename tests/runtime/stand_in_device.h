// SPDX-License-Identifier: Apache-2.0
//
// Two devices that are no CPU, on any machine: a stand-in for GPUs that shows what kernels and executor
// would do wrong on one. Tensors lie on it as on a GPU, and hold values; every ATen operator runs on CPU
// tensors that lend their memory:
//
//     at::add(a, b)     a, b on device 0  ─▶  the same memory as CPU tensors  ─▶  ATen's CPU kernel
//                                                                                      │
//                       result on device 0  ◀──────────────────────────────────────────┘
//
// What a GPU refuses it refuses, by c10::Error: operands on the CPU or on another device (but for the
// numbers of no dims that ATen's pointwise kernels take from the CPU), pointers to elements, and some element
// types that ATen's CPU kernels have and its CUDA kernels have not. What makes
// the host wait for a GPU it writes down: elements read on the host, tensors copied there and (unless
// non-blocking) from there, results whose extents depend on elements.
//
// What it cannot show: other types that ATen's CUDA kernels lack, and whatever runs at the same time.
//
// Registered with ATen before main(), under a device type that nothing else uses. Any number of threads.
#pragma once

#include <string>
#include <vector>

#include <c10/core/Device.h>

namespace partita::runtime {

/// 0 or 1.
c10::Device stand_in_device(int index = 0);

/// What the host has waited for since the last call, in any thread: names of ATen's operators, and
/// "copy to the host" and "copy from the host".
std::vector<std::string> take_waits();

}  // namespace partita::runtime
