// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/cuda_memory_meter.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "runtime/execute/memory_meter.h"

namespace partita::runtime {

namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

/// For whom each block was allocated: it may be given back by anyone. Used under the allocator's lock of one
/// GPU, and addresses differ between GPUs.
class Blocks {
public:
    void heed(const TraceEntry& entry) {
        const auto bytes = static_cast<std::int64_t>(entry.size_);
        if (entry.action_ == TraceEntry::ALLOC) {
            const int own = metered_device();
            const int device = own >= 0 ? own : metered_device_of(entry.device_);
            const std::lock_guard lock(mutex_);
            device_of_[entry.addr_] = device;
            count_bytes(device, bytes);
        } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
            const std::lock_guard lock(mutex_);
            const auto found = device_of_.find(entry.addr_);
            if (found == device_of_.end()) return;
            count_bytes(found->second, -bytes);
            device_of_.erase(found);
        }
    }

private:
    std::mutex mutex_;
    std::unordered_map<std::size_t, int> device_of_;  ///< by address
};

}  // namespace

bool watch_cuda_memory() {
    if (!at::hasCUDA() || at::detail::getCUDAHooks().deviceCount() == 0) return false;
    at::globalContext().lazyInitDevice(at::kCUDA);
    static auto* const kBlocks = new Blocks;  // never destroyed: tensors may outlive it
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(
        [](const TraceEntry& entry) { kBlocks->heed(entry); });
    return true;
}

}  // namespace partita::runtime
