// SPDX-License-Identifier: Apache-2.0
//
// Tasks that wait in the queue of their lane until their turn by (start, key) has come.
//
// All tasks of a lane can start at the same moment, so only the first of a queue is ever compared with
// anything else. When a lane can start something is looked up again only when it might matter.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "plan/resource_queues.h"

namespace partita::plan {

class LaneQueues {
public:
    static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

    struct Waiting {
        std::uint64_t key = 0;
        std::int64_t ready = 0;
        Slot slot = -1;
        bool is_sure = false;  ///< nothing keeps it waiting wrongly
    };
    struct Choice {
        std::int64_t start = kNever;
        std::int64_t ready = kNever;
        Slot slot = -1;
        bool is_sure = false;  ///< nothing keeps it waiting wrongly until then
    };

    void forget(std::size_t lanes);
    void add(std::int32_t lane, const Waiting& task);
    void remove(std::int32_t lane, Slot slot);
    /// Resources may be free earlier than they were: those of these lanes.
    template <class Predicate>
    void look_up_again(const Predicate& is_of) {
        for (Active& active : active_) {
            if (!is_of(active.lane)) continue;
            active.bound = least_bound_ = kAlways;
            for (Waiting& task : queues_[static_cast<std::size_t>(active.lane)]) {
                task.is_sure = false;
            }
        }
    }

    [[nodiscard]] bool empty() const { return active_.empty(); }
    /// The task that goes before one with this start and key, and before all others; it stays here.
    std::optional<Choice> first_before(std::int64_t start, std::uint64_t key,
                                       const ResourceQueues& queues);
    /// Everything that waits, in no particular order.
    template <class Visit>
    void for_each(const Visit& visit) const {
        for (const Active& active : active_) {
            for (const Waiting& task : queues_[static_cast<std::size_t>(active.lane)]) {
                visit(task.slot);
            }
        }
    }

private:
    static constexpr std::int64_t kAlways = std::numeric_limits<std::int64_t>::min();

    /// A lane with a queue.
    struct Active {
        std::int64_t bound = 0;  ///< it starts nothing before
        std::int32_t lane = -1;
    };

    /// The task that a lane would start next.
    struct First {
        std::int64_t start = kNever;
        const Waiting* task = nullptr;
    };

    [[nodiscard]] First first_of(std::int32_t lane, const ResourceQueues& queues) const;
    void find_least();

    std::vector<std::vector<Waiting>> queues_;  ///< per lane, by key
    std::vector<Active> active_;
    std::int64_t least_bound_ = kNever;
};

}  // namespace partita::plan
