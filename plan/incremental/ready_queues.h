// SPDX-License-Identifier: Apache-2.0
//
// Ready tasks and the resources that they wait for, at one moment of a simulation.
//
// All tasks of a resource set can start at the same moment, so they queue, and only the first of a
// queue is ever looked at. A resource set whose resources are not all free is parked at one that is
// not, and looked at again when it is the first that is parked there and that resource is free:
//
//     release(set)   its resources are free
//     add(slot)      a task is ready
//     start_all()    of all that can start, the one with the smallest key, until there is none
//
// A resource set whose one resource is that of no other resource set (the compute row of a device)
// is never parked.
//
// A host that launches tasks is a resource that a task which starts leaves as it is: it is busy
// from close_host() to open_host().
//
// Cost: O(log) per task in the length of its queue, and per time that its resource set is parked.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "plan/incremental/slot_graph.h"

namespace partita::plan {

class ReadyQueues {
public:
    explicit ReadyQueues(const SlotGraph& graph) : graph_(graph) {}

    /// Nothing is ready, and all resources are free. New resource sets of the graph are known from
    /// now on.
    void clear();

    void occupy(std::int32_t resource_set) { set_busy(resource_set); }
    void release(std::int32_t resource_set);
    void close_host(std::int32_t device);
    void open_host(std::int32_t device);
    void add(Slot slot);

    /// Calls start(slot) for each task that starts now; its resources are occupied already.
    /// Starting makes nothing ready at once: tasks take time. Where `start` returns false it ends.
    template <class Start>
    bool start_all(const Start& start) {
        for (const std::int32_t resource_set : free_alone_) {
            queues_[at(resource_set)].is_listed = false;
            set_busy(resource_set);
            if (!start(pop(queues_[at(resource_set)]))) return false;
        }
        free_alone_.clear();
        return candidates_.empty() && released_.empty() ? true : start_shared(start);
    }

private:
    struct Waiting {
        std::uint64_t key = 0;
        Slot slot = -1;
        friend bool operator>(const Waiting& a, const Waiting& b) { return a.key > b.key; }
    };
    struct Queue {
        std::vector<Waiting> tasks;  ///< a heap, the smallest key first
        std::int32_t parked =
            kIdle;  ///< at which resource, unless it is alone; or one of the below
        bool is_alone = false;
        bool is_listed = false;  ///< in free_alone_
    };
    static constexpr std::int32_t kIdle = -1;       ///< nothing waits
    static constexpr std::int32_t kCandidate = -2;  ///< it may start something now

    /// A resource set by its first task.
    struct Candidate {
        std::uint64_t key = 0;
        std::int32_t resource_set = -1;
        std::int32_t parked = kCandidate;  ///< where it was
        friend bool operator>(const Candidate& a, const Candidate& b) { return a.key > b.key; }
    };
    using Heap = std::vector<Candidate>;  ///< the smallest key first

    static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
    [[nodiscard]] std::uint64_t first_key(std::int32_t resource_set) const {
        return queues_[at(resource_set)].tasks.front().key;
    }
    [[nodiscard]] const std::uint64_t* mask(std::int32_t resource_set) const {
        return masks_.data() + at(resource_set) * words_;
    }
    void set_busy(std::int32_t resource_set) {
        const std::uint64_t* const of = mask(resource_set);
        for (std::size_t w = 0; w < words_; ++w) busy_[w] |= of[w] & ~hosts_[w];
    }
    [[nodiscard]] std::int32_t row_of_host(std::int32_t device) const {
        return static_cast<std::int32_t>(graph_.resource_count()) + device;
    }
    [[nodiscard]] bool is_busy(std::int32_t resource) const {
        return (busy_[at(resource) / 64] >> (at(resource) % 64) & 1) != 0;
    }
    /// -1: all are free.
    [[nodiscard]] std::int32_t busy_resource(std::int32_t resource_set) const {
        const std::uint64_t* const of = mask(resource_set);
        for (std::size_t w = 0; w < words_; ++w) {
            const std::uint64_t both = busy_[w] & of[w];
            if (both != 0) return static_cast<std::int32_t>(64 * w) + std::countr_zero(both);
        }
        return -1;
    }
    static void push(Heap& heap, const Candidate& candidate) {
        heap.push_back(candidate);
        std::push_heap(heap.begin(), heap.end(), std::greater<>{});
    }
    static Candidate pop(Heap& heap) {
        const Candidate first = heap.front();
        std::pop_heap(heap.begin(), heap.end(), std::greater<>{});
        heap.pop_back();
        return first;
    }
    static Slot pop(Queue& queue);
    void know_resource_sets();
    void park(std::int32_t resource_set, std::int32_t resource);
    void push_first_parked(std::int32_t resource);

    /// Resource sets that compete, in the order of their keys. What is parked at a resource stays
    /// there untouched once that is busy again.
    template <class Start>
    bool start_shared(const Start& start) {
        for (const std::int32_t resource : released_) push_first_parked(resource);
        released_.clear();
        while (!candidates_.empty()) {
            const Candidate candidate = pop(candidates_);
            const std::int32_t from = candidate.parked;
            if (from >= 0) {
                if (is_busy(from)) continue;
                pop(parked_[at(from)]);
            }
            Queue& queue = queues_[at(candidate.resource_set)];
            // Parked once more since, by a smaller key, or started.
            const bool is_stale = queue.parked != from || queue.tasks.front().key != candidate.key;
            const std::int32_t busy = is_stale ? -1 : busy_resource(candidate.resource_set);
            if (!is_stale && busy < 0) {
                const Slot slot = pop(queue);
                set_busy(candidate.resource_set);
                queue.parked = kIdle;
                if (!queue.tasks.empty()) {
                    const bool stays = from >= 0 && is_busy(from);
                    park(candidate.resource_set,
                         stays ? from : busy_resource(candidate.resource_set));
                }
                if (!start(slot)) return false;
                if (from >= 0 && !is_busy(from)) push_first_parked(from);  // a host
                continue;
            }
            if (!is_stale) park(candidate.resource_set, busy);
            if (from >= 0) push_first_parked(from);
        }
        return true;
    }

    const SlotGraph& graph_;
    std::size_t words_ = 0;             ///< of a mask of resources
    std::vector<std::uint64_t> masks_;  ///< per resource set, hosts included
    std::vector<std::uint64_t> hosts_;  ///< a mask of all
    std::vector<Queue> queues_;
    std::vector<std::int32_t> only_set_;  ///< per resource; -1: none, -2: there are several
    /// Resource sets with a queue since clear(), some more than once.
    std::vector<std::int32_t> used_;
    std::vector<std::uint64_t> busy_;        ///< a mask
    std::vector<std::uint64_t> has_parked_;  ///< the same: something may be parked there
    std::vector<Heap> parked_;               ///< per resource
    std::vector<std::int32_t> released_;     ///< resources where something is parked
    std::vector<std::int32_t> free_alone_;   ///< resource sets that can start something
    Heap candidates_;                        ///< those that may start something, but compete
};

}  // namespace partita::plan
