// SPDX-License-Identifier: Apache-2.0
//
// Ready tasks and the resources that they wait for, at one moment of a simulation.
//
// All tasks of a lane can start at the same moment, so they queue, and only the first of a queue is ever
// looked at. A lane whose resources are not all free is parked at one that is not, and looked at again when
// that one is released:
//
//     release(lane)   its resources are free; what is parked there may start
//     add(slot)       a task is ready
//     start_all()     of all that can start, the one with the smallest key, until there is none
//
// Cost: O(log) per task in the length of its queue, plus one look per lane and resource it was parked at.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "plan/slot_graph.h"

namespace partita::plan {

class ReadyLanes {
public:
    explicit ReadyLanes(const SlotGraph& graph) : graph_(graph) {}

    /// Nothing is ready, and all resources are free.
    void clear();

    void occupy(std::int32_t lane) { set_busy(lane, 1); }
    void release(std::int32_t lane);
    void add(Slot slot);

    /// Calls start(slot) for each task that starts now; its resources are occupied already. Starting
    /// makes nothing ready at once: tasks take time. Where `start` returns false it ends.
    template <class Start>
    bool start_all(const Start& start) {
        shared_.clear();
        for (std::size_t i = 0; i < candidates_.size(); ++i) {
            const std::int32_t lane = candidates_[i];
            if (!lanes_[at(lane)].alone) {
                shared_.push_back({first(lane).key, lane});
            } else if (!look_at(lane, start)) {
                return false;
            }
        }
        candidates_.clear();
        if (shared_.size() > 1) std::sort(shared_.begin(), shared_.end());
        for (const Candidate& candidate : shared_) {
            if (!look_at(candidate.lane, start)) return false;
        }
        return true;
    }

private:
    struct Waiting {
        std::uint64_t key = 0;
        Slot slot = -1;
        friend bool operator>(const Waiting& a, const Waiting& b) { return a.key > b.key; }
    };
    struct Lane {
        std::vector<Waiting> queue;  ///< a heap, the smallest key first
        bool is_known = false;       ///< parked, or a candidate
        bool alone = false;          ///< its one resource is that of no other lane
    };
    struct Candidate {
        std::uint64_t key = 0;
        std::int32_t lane = -1;
        friend bool operator<(const Candidate& a, const Candidate& b) { return a.key < b.key; }
    };

    static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] const Waiting& first(std::int32_t lane) const {
        return lanes_[at(lane)].queue.front();
    }
    void set_busy(std::int32_t lane, char busy) {
        for (const std::int32_t r : graph_.resources(lane)) busy_[at(r)] = busy;
    }
    void know_lanes();
    Slot pop(Lane& lane);

    /// Starts the first of its queue, or parks it.
    template <class Start>
    bool look_at(std::int32_t number, const Start& start) {
        Lane& lane = lanes_[at(number)];
        const auto resources = graph_.resources(number);
        const auto busy = std::find_if(resources.begin(), resources.end(),
                                       [&](std::int32_t r) { return busy_[at(r)] != 0; });
        if (busy != resources.end()) {
            parked_[at(*busy)].push_back(number);
            return true;
        }
        const Slot slot = pop(lane);
        set_busy(number, 1);
        lane.is_known = !lane.queue.empty();
        if (lane.is_known) parked_[at(resources[0])].push_back(number);
        return start(slot);
    }

    const SlotGraph& graph_;
    std::vector<Lane> lanes_;
    std::vector<std::int32_t> used_;                 ///< lanes with a queue, some more than once
    std::vector<char> busy_;                         ///< per resource
    std::vector<std::vector<std::int32_t>> parked_;  ///< per resource: lanes
    std::vector<std::int32_t> candidates_;           ///< lanes that may start something
    std::vector<Candidate> shared_;                  ///< of these, those that compete
};

}  // namespace partita::plan
