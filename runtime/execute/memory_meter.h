// SPDX-License-Identifier: Apache-2.0
//
// Bytes of tensors per plan device, as LibTorch allocates them: everything a device's work makes,
// ATen's scratch memory and what autograd saves included. Installed in front of LibTorch's CPU
// allocator, once per process; a thread says on which device's behalf it works.
//
// Of GPUs LibTorch's own allocator says what it does (cuda_memory_meter.h).
//
// On CPUs it also keeps what is given back, by size, for the next tensor of that size: pages that
// are already mapped cost nothing, those of a new 100 MB tensor some 25 ms. What is kept counts as
// free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace partita::runtime {

inline constexpr int kMostMeteredDevices = 4'096;

/// From now on memory counts. Any number of calls.
void install_memory_meter();

/// What this thread allocates from now on counts for that device; -1: for none.
void meter_device(int device);
int metered_device();
/// The same for what threads of others (autograd has one per GPU) allocate on a GPU that one worker
/// drives.
void meter_gpu(int gpu, int device);
int metered_device_of(int gpu);
/// Allocated, or given back when negative, for a device; none when that is -1.
void count_bytes(int device, std::int64_t bytes);

/// Of a device since the last reset: the most that was allocated at one time.
Bytes peak_bytes(int device);
Bytes current_bytes(int device);
/// The peak becomes what is allocated now.
void reset_peaks();
/// Returns what is kept to the operating system.
void release_kept_memory();

}  // namespace partita::runtime
