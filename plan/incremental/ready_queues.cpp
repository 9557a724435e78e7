// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/ready_queues.h"

namespace partita::plan {

void ReadyLanes::clear() {
    if (lanes_.size() != graph_.lanes()) know_lanes();
    for (const std::int32_t number : used_) {
        Lane& lane = lanes_[at(number)];
        lane.queue.clear();
        lane.parked = kIdle;
        lane.is_listed = false;
    }
    for (std::size_t w = 0; w < words_; ++w) {
        for (std::uint64_t bits = has_parked_[w]; bits != 0; bits &= bits - 1) {
            parked_[64 * w + static_cast<std::size_t>(std::countr_zero(bits))].clear();
        }
        has_parked_[w] = busy_[w] = 0;
    }
    used_.clear();
    released_.clear();
    free_alone_.clear();
    candidates_.clear();
}

void ReadyLanes::know_lanes() {
    words_ = (graph_.resource_count() + 63) / 64;
    busy_.resize(words_);
    has_parked_.resize(words_);
    parked_.resize(graph_.resource_count());
    only_lane_.resize(graph_.resource_count(), -1);
    masks_.resize(graph_.lanes() * words_);
    for (std::size_t i = lanes_.size(); i < graph_.lanes(); ++i) {
        const auto number = static_cast<std::int32_t>(i);
        const auto resources = graph_.resources(number);
        bool is_alone = resources.size() == 1;
        for (const std::int32_t r : resources) {
            masks_[i * words_ + at(r) / 64] |= std::uint64_t{1} << (at(r) % 64);
            std::int32_t& only = only_lane_[at(r)];
            if (only >= 0) lanes_[at(only)].is_alone = false;
            is_alone = is_alone && only == -1;
            only = only == -1 ? number : -2;
        }
        lanes_.emplace_back().is_alone = is_alone;
    }
}

void ReadyLanes::release(std::int32_t number) {
    const std::uint64_t* const of = mask(number);
    for (std::size_t w = 0; w < words_; ++w) {
        busy_[w] &= ~of[w];
        for (std::uint64_t bits = of[w] & has_parked_[w]; bits != 0; bits &= bits - 1) {
            released_.push_back(static_cast<std::int32_t>(64 * w) + std::countr_zero(bits));
        }
    }
    Lane& lane = lanes_[at(number)];
    if (!lane.is_alone || lane.queue.empty() || lane.is_listed) return;
    lane.is_listed = true;
    free_alone_.push_back(number);
}

void ReadyLanes::add(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    Lane& lane = lanes_[at(node.lane)];
    if (lane.queue.empty()) used_.push_back(node.lane);
    lane.queue.push_back({node.key, slot});
    std::push_heap(lane.queue.begin(), lane.queue.end(), std::greater<>{});
    if (lane.is_alone) {
        if (lane.is_listed || busy_resource(node.lane) >= 0) return;
        lane.is_listed = true;
        free_alone_.push_back(node.lane);
    } else if (lane.queue.front().slot == slot) {
        if (lane.parked >= 0) {
            park(node.lane, lane.parked);
        } else {
            lane.parked = kCandidate;
            push(candidates_, {node.key, node.lane, kCandidate});
        }
    }
}

Slot ReadyLanes::pop(Lane& lane) {
    const Slot slot = lane.queue.front().slot;
    std::pop_heap(lane.queue.begin(), lane.queue.end(), std::greater<>{});
    lane.queue.pop_back();
    return slot;
}

void ReadyLanes::park(std::int32_t lane, std::int32_t resource) {
    lanes_[at(lane)].parked = resource;
    push(parked_[at(resource)], {first_key(lane), lane, resource});
    has_parked_[at(resource) / 64] |= std::uint64_t{1} << (at(resource) % 64);
}

/// Makes a candidate of what is first there, which stays until it is taken up.
void ReadyLanes::push_first_parked(std::int32_t resource) {
    const Heap& parked = parked_[at(resource)];
    if (!parked.empty()) {
        push(candidates_, parked.front());
    } else {
        has_parked_[at(resource) / 64] &= ~(std::uint64_t{1} << (at(resource) % 64));
    }
}

}  // namespace partita::plan
