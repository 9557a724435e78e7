// SPDX-License-Identifier: Apache-2.0
//
// A placement of groups in slots that changes move by move, and what it is worth. What is compared
// is
//
//     (bytes too many, latency + guidance * length of all calls)
//
// The second term tells placements of one latency apart: away from the longest path, too, less
// communication is better, since other paths become the longest later.
//
// Not thread-safe: one object per chain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/evaluation/subgraph_latency.h"
#include "search/call_latency/call_space.h"

namespace partita::search {

struct CallScore {
    std::int64_t overflow = 0;  ///< bytes
    std::int64_t latency = 0;   ///< ps
    double energy = 0;          ///< ps

    [[nodiscard]] bool better_than(const CallScore& other) const {
        return overflow != other.overflow ? overflow < other.overflow : latency < other.latency;
    }
};

class CallState {
public:
    CallState(const CallSpace& space, double guidance);

    void place(const std::vector<std::int32_t>& slots);

    /// One move of the pending change; priced by score().
    void move(std::int32_t group, std::int32_t slot);
    [[nodiscard]] CallScore score();
    void accept() { changes_.clear(); }
    void reject();

    [[nodiscard]] bool is_changed() const { return !changes_.empty(); }
    [[nodiscard]] std::int32_t slot(std::int32_t group) const {
        return slots_[static_cast<std::size_t>(group)];
    }
    [[nodiscard]] const std::vector<std::int32_t>& slots() const { return slots_; }
    /// Bytes that are left; negative: too many.
    [[nodiscard]] std::int64_t room(std::int32_t slot) const {
        const auto s = static_cast<std::size_t>(slot);
        return space_.capacity[s] - used_[s];
    }
    [[nodiscard]] std::int64_t overflow() const { return overflow_; }
    [[nodiscard]] const CallSpace& space() const { return space_; }

private:
    void put(std::int32_t group, std::int32_t slot);

    const CallSpace& space_;
    double guidance_;
    plan::SubgraphCalls calls_;
    std::vector<std::int32_t> slots_;    ///< per group
    std::vector<std::int32_t> devices_;  ///< per op
    std::vector<std::int64_t> used_;     ///< bytes, per slot
    std::int64_t overflow_ = 0;
    std::vector<std::pair<std::int32_t, std::int32_t>> changes_;  ///< groups and their slots before
};

}  // namespace partita::search
