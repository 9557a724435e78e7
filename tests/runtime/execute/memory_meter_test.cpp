// SPDX-License-Identifier: Apache-2.0
//
// Every byte that LibTorch allocates counts for the device on whose behalf it is, until it is given
// back.
#include <new>

#include <gtest/gtest.h>

#include <ATen/Functions.h>
#include <c10/core/CPUAllocator.h>

#include "cost/discovery/host.h"
#include "runtime/execute/memory_meter.h"
#include "runtime/execute/metered_blocks.h"

namespace partita::runtime {
namespace {

constexpr int kDevice = 7;

class MemoryMeter : public testing::Test {
protected:
    MemoryMeter() {
        install_memory_meter();
        meter_device(kDevice);
        reset_peaks();
        before_ = current_bytes(kDevice);
    }
    ~MemoryMeter() override { meter_device(-1); }

    [[nodiscard]] std::int64_t held() const { return (current_bytes(kDevice) - before_).raw(); }
    [[nodiscard]] std::int64_t most() const { return (peak_bytes(kDevice) - before_).raw(); }

    Bytes before_;
};

TEST_F(MemoryMeter, CountsTensorsWhileTheyLive) {
    {
        const at::Tensor a = at::empty({1000}, at::TensorOptions().dtype(at::kFloat));
        const at::Tensor b = at::empty({1 << 20}, at::TensorOptions().dtype(at::kFloat));
        EXPECT_EQ(held(), 4000 + (4 << 20));
    }
    EXPECT_EQ(held(), 0);
    EXPECT_EQ(most(), 4000 + (4 << 20));
    reset_peaks();
    EXPECT_EQ(most(), 0);
}

TEST_F(MemoryMeter, CountsOnceWhatIsUsedAgain) {
    for (int i = 0; i < 3; ++i) {
        const at::Tensor large = at::empty({1 << 20}, at::TensorOptions().dtype(at::kFloat));
        EXPECT_EQ(held(), 4 << 20);
    }
    EXPECT_EQ(held(), 0);
    release_kept_memory();
    EXPECT_EQ(held(), 0);
}

TEST_F(MemoryMeter, RefusesABlockThatNoHostHolds) {
    // The system itself would promise it where it overcommits, and where this process may use less
    // than there is.
    const auto most = static_cast<std::size_t>(cost::host_limits().memory.raw());
    EXPECT_THROW(c10::GetAllocator(c10::DeviceType::CPU)->allocate(most + 1), std::bad_alloc);
    EXPECT_EQ(held(), 0);
}

TEST_F(MemoryMeter, CountsForWhoAllocatedWhoeverGivesBack) {
    at::Tensor tensor = at::empty({1 << 20}, at::TensorOptions().dtype(at::kFloat));
    meter_device(kDevice + 1);
    tensor = at::Tensor();
    EXPECT_EQ(held(), 0);
}

// As oneDNN does it, sizes of 0 included.
TEST_F(MemoryMeter, ServesWhoAllocatesWithoutATensor) {
    c10::Allocator* const allocator = c10::GetCPUAllocator();
    void* const nothing = allocator->raw_allocate(0);
    void* const some = allocator->raw_allocate(100'000);
    EXPECT_EQ(held(), 100'000);
    allocator->raw_deallocate(some);
    allocator->raw_deallocate(nothing);
    EXPECT_EQ(held(), 0);
}

// Those of a GPU, as LibTorch's allocator tells of them.
TEST_F(MemoryMeter, CountsBlocksFromWhenTheyAreGivenOutToWhenTheyComeBack) {
    MeteredBlocks blocks;
    blocks.give_out(0x1000, 500, kDevice);
    blocks.give_out(0x2000, 300, kDevice);
    blocks.give_out(0x3000, 70'000, kDevice + 1);
    EXPECT_EQ(held(), 800);
    blocks.take_back(0x1000);
    EXPECT_EQ(held(), 300);
    blocks.give_out(0x1000, 40, kDevice);
    blocks.take_back(0x2000);
    EXPECT_EQ(held(), 40);
    EXPECT_EQ(most(), 800);
    blocks.take_back(0x1000);
    blocks.take_back(0x3000);
    EXPECT_EQ(held(), 0);
}

TEST_F(MemoryMeter, LeavesBlocksAloneThatItHasNotSeen) {
    MeteredBlocks blocks;
    blocks.take_back(0x1000);
    EXPECT_EQ(held(), 0);
    blocks.give_out(0x1000, 10, kDevice);
    blocks.take_back(0x1000);
    blocks.take_back(0x1000);
    EXPECT_EQ(held(), 0);
}

}  // namespace
}  // namespace partita::runtime
