// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/cuda_memory_meter.h"

#include <cstdint>

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "runtime/execute/memory_meter.h"
#include "runtime/execute/metered_blocks.h"

namespace partita::runtime {

namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

/// Under the allocator's lock of one GPU; addresses differ between GPUs.
void heed(MeteredBlocks& blocks, const TraceEntry& entry) {
    if (entry.action_ == TraceEntry::ALLOC) {
        const int own = metered_device();
        const int device = own >= 0 ? own : metered_device_of(entry.device_);
        blocks.give_out(entry.addr_, static_cast<std::int64_t>(entry.size_), device);
    } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
        blocks.take_back(entry.addr_);
    }
}

}  // namespace

bool watch_cuda_memory() {
    if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0) return false;
    at::globalContext().lazyInitDevice(at::kCUDA);
    static auto* const kBlocks = new MeteredBlocks;  // never destroyed: tensors may outlive it
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
        [](const TraceEntry& entry) { heed(*kBlocks, entry); });
    return true;
}

}  // namespace partita::runtime
