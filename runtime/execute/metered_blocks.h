// SPDX-License-Identifier: Apache-2.0
//
// Blocks of an allocator that says when it gives one out and gets it back, counted for plan devices
// (memory_meter.h): for whom a block was allocated is remembered, since anyone may give it back.
// Addresses of blocks that are out differ. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace partita::runtime {

class MeteredBlocks {
public:
    /// On behalf of a plan device; -1: of none.
    void give_out(std::size_t address, std::int64_t bytes, int device);
    /// A block that was given out before anyone counted is left alone.
    void take_back(std::size_t address);

private:
    struct Block {
        std::int64_t bytes = 0;
        int device = -1;
    };
    std::mutex mutex_;
    std::unordered_map<std::size_t, Block> blocks_;  ///< by address
};

}  // namespace partita::runtime
