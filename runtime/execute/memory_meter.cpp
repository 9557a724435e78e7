// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/memory_meter.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include "cost/discovery/host.h"
#include "runtime/execute/cuda_memory_meter.h"

namespace partita::runtime {

namespace {

struct Count {
    std::atomic<std::int64_t> now{0};
    std::atomic<std::int64_t> peak{0};
};
std::array<Count, kMostMeteredDevices> device_counts;
thread_local int current_device = -1;
constexpr std::size_t kMostGpus = 128;                    // an at::DeviceIndex
std::array<std::atomic<int>, kMostGpus> devices_of_gpus;  ///< plus 1; 0: none

/// In front of every block; as long as LibTorch wants tensors aligned.
struct alignas(64) Header {
    std::size_t size = 0;  ///< as asked for
    int size_class = 0;
    int device = -1;
};
static_assert(sizeof(Header) == 64);

/// Sizes in four steps per power of two: at most a quarter is left unused.
constexpr int kClasses = 256;
int class_of(std::size_t size) {
    const std::size_t least = size < 64 ? 64 : size;
    const auto power = static_cast<int>(std::bit_width(least - 1)) - 1;
    const auto quarter = static_cast<int>(((least - 1) >> (power - 2)) & 3U);
    return 4 * power + quarter;
}
std::size_t size_of_class(int number) {
    const int power = number / 4;
    return (std::size_t{1} << power) + ((static_cast<std::size_t>(number % 4) + 1) << (power - 2));
}

/// Small blocks are the C library's business.
constexpr std::size_t kLeastKept = std::size_t{64} << 10;

class BlockCache {
public:
    void* take(int number) {
        const std::lock_guard lock(mutex_);
        auto& kept = kept_[static_cast<std::size_t>(number)];
        if (kept.empty()) return nullptr;
        void* const block = kept.back();
        kept.pop_back();
        return block;
    }
    void keep(int number, void* block) {
        const std::lock_guard lock(mutex_);
        kept_[static_cast<std::size_t>(number)].push_back(block);
    }
    void release() {
        const std::lock_guard lock(mutex_);
        for (auto& kept : kept_) {
            for (void* const block : kept) std::free(block);
            kept.clear();
        }
    }

private:
    std::mutex mutex_;
    std::array<std::vector<void*>, kClasses> kept_;
};

/// Never destroyed: tensors of other static objects may outlive it.
BlockCache& cache() {
    static auto* const kCache = new BlockCache;
    return *kCache;
}

/// Larger blocks, as contents that only a run knows may ask for, would be promised and then end the
/// process.
std::size_t host_memory() {
    static const auto kBytes = static_cast<std::size_t>(cost::host_limits().memory.raw());
    return kBytes;
}

void* new_block(std::size_t size, int number) {
    if (size > host_memory()) throw std::bad_alloc();
    const bool is_kept = size >= kLeastKept;
    if (is_kept) {
        if (void* const block = cache().take(number)) return block;
    }
    const std::size_t bytes = sizeof(Header) + (is_kept ? size_of_class(number) : size);
    void* block = nullptr;
    if (posix_memalign(&block, alignof(Header), bytes) == 0) return block;
    cache().release();
    if (posix_memalign(&block, alignof(Header), bytes) == 0) return block;
    throw std::bad_alloc();
}

/// `data`: what allocate() gave; its header lies in front of it.
void give_back(void* data) {
    if (data == nullptr) return;  // of no bytes
    Header* const header = static_cast<Header*>(data) - 1;
    count_bytes(header->device, -static_cast<std::int64_t>(header->size));
    if (header->size >= kLeastKept) {
        cache().keep(header->size_class, header);
    } else {
        std::free(header);
    }
}

class MeteredAllocator final : public c10::Allocator {
public:
    c10::DataPtr allocate(std::size_t size) override {
        const c10::Device cpu(c10::DeviceType::CPU);
        if (size == 0) return {nullptr, nullptr, nullptr, cpu};
        const int number = class_of(size);
        void* const block = new_block(size, number);
        auto* const header =
            new (block) Header{.size = size, .size_class = number, .device = current_device};
        count_bytes(header->device, static_cast<std::int64_t>(size));
        // Data and context are the same pointer, as those want it that allocate without a tensor.
        return {header + 1, header + 1, &give_back, cpu};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
    void copy_data(void* to, const void* from, std::size_t bytes) const override {
        default_copy_data(to, from, bytes);
    }
};

}  // namespace

void install_memory_meter() {
    static MeteredAllocator* const kAllocator = [] {
        auto* const allocator = new MeteredAllocator;
        constexpr std::uint8_t kPriority = 100;
        c10::SetCPUAllocator(allocator, kPriority);
        return allocator;
    }();
    static_cast<void>(kAllocator);
    static const bool kWatched = watch_cuda_memory();
    static_cast<void>(kWatched);
}

void meter_device(int device) {
    current_device = device;
}

int metered_device() {
    return current_device;
}

void meter_gpu(int gpu, int device) {
    devices_of_gpus.at(static_cast<std::size_t>(gpu)).store(device + 1, std::memory_order_relaxed);
}

int metered_device_of(int gpu) {
    return devices_of_gpus.at(static_cast<std::size_t>(gpu)).load(std::memory_order_relaxed) - 1;
}

void count_bytes(int device, std::int64_t bytes) {
    if (device < 0 || device >= kMostMeteredDevices) return;
    Count& of = device_counts[static_cast<std::size_t>(device)];
    const std::int64_t now = of.now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = of.peak.load(std::memory_order_relaxed);
    while (now > peak && !of.peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
}

Bytes peak_bytes(int device) {
    return Bytes{
        device_counts[static_cast<std::size_t>(device)].peak.load(std::memory_order_relaxed)};
}

Bytes current_bytes(int device) {
    return Bytes{
        device_counts[static_cast<std::size_t>(device)].now.load(std::memory_order_relaxed)};
}

void reset_peaks() {
    for (Count& each : device_counts) {
        each.peak.store(each.now.load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
}

void release_kept_memory() {
    cache().release();
}

}  // namespace partita::runtime
