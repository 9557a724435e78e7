// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/metered_blocks.h"

#include "runtime/execute/memory_meter.h"

namespace partita::runtime {

void MeteredBlocks::give_out(std::size_t address, std::int64_t bytes, int device) {
    const std::lock_guard lock(mutex_);
    blocks_[address] = {.bytes = bytes, .device = device};
    count_bytes(device, bytes);
}

void MeteredBlocks::take_back(std::size_t address) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    if (found == blocks_.end()) return;
    count_bytes(found->second.device, -found->second.bytes);
    blocks_.erase(found);
}

}  // namespace partita::runtime
