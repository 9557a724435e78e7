// SPDX-License-Identifier: Apache-2.0
//
// What has happened before what, for streams of pretend GPUs (pretend_gpu.h). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace partita::runtime {

/// Device and number.
using StreamId = std::pair<int, std::int64_t>;
/// Per stream: so many of its operators have happened.
using VectorClock = std::map<StreamId, std::int64_t>;

/// The memory of a tensor, as an operator uses it.
struct Access {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    bool writes = false;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> strides;  ///< in bytes
};
/// Have they an element in common? Neighbouring columns of a matrix have none.
bool overlap(const Access& a, const Access& b);

class StreamClocks {
public:
    /// The next operator of a stream. `what`: for messages.
    void run(StreamId stream, const std::string& what, const std::vector<Access>& accesses);

    // Events.
    [[nodiscard]] VectorClock now(StreamId stream);
    void wait(StreamId stream, const VectorClock& until);
    /// The host has waited for the stream: what follows anywhere comes after.
    void wait_on_host(StreamId stream);
    /// The host has seen that this has happened, by chance perhaps. When it has seen everything of
    /// a device, all that follows comes after.
    void seen_by_host(const VectorClock& clock);
    void seen_by_host(int device);

    /// All that ran is over.
    void forget();

    // Memory.
    void allocated(std::uintptr_t begin, std::size_t bytes, StreamId stream);
    void used_by(std::uintptr_t begin, StreamId stream);
    void given_back(std::uintptr_t begin);

    [[nodiscard]] std::vector<std::string> take_races();

private:
    struct Use {
        StreamId stream;
        std::int64_t at = 0;
        Access access;
        std::string what;
    };
    struct Block {
        std::uintptr_t end = 0;
        StreamId owner;
        std::vector<StreamId> users;
        std::vector<Use> uses;
    };
    [[nodiscard]] bool is_before(const Use& use, StreamId stream) const;
    [[nodiscard]] VectorClock& clock(StreamId stream);
    [[nodiscard]] Block* block_of(std::uintptr_t address);
    void use(Block& block, const Use& use);
    void report(const Use& earlier, const std::string& later);
    void look_for_quiet();

    std::mutex mutex_;
    std::map<StreamId, VectorClock> clocks_;
    VectorClock seen_;                        ///< by the host
    VectorClock quiet_;                       ///< comes before all that follows
    std::map<std::uintptr_t, Block> blocks_;  ///< by where they begin
    std::vector<std::string> races_;
};

}  // namespace partita::runtime
