// SPDX-License-Identifier: Apache-2.0
//
// What LibTorch's allocator of CUDA memory gives out and gets back counts for plan devices, as that
// on CPUs does (memory_meter.h). What waits for a stream to be done with it counts as given back.
#pragma once

namespace partita::runtime {

/// From now on; once. False where this program has no CUDA, or the host no GPU.
bool watch_cuda_memory();

}  // namespace partita::runtime
