// SPDX-License-Identifier: Apache-2.0
#include "plan/ready_lanes.h"

#include <functional>

namespace partita::plan {

void ReadyLanes::clear() {
    if (lanes_.size() != graph_.lanes()) know_lanes();
    for (const std::int32_t lane : used_) {
        lanes_[at(lane)].queue.clear();
        lanes_[at(lane)].is_known = false;
    }
    used_.clear();
    candidates_.clear();
    std::fill(busy_.begin(), busy_.end(), char{0});
    for (auto& lanes : parked_) lanes.clear();
}

void ReadyLanes::know_lanes() {
    lanes_.resize(graph_.lanes());
    busy_.resize(graph_.resource_count());
    parked_.resize(graph_.resource_count());
    std::vector<int> users(graph_.resource_count(), 0);
    for (const std::int32_t r : graph_.lane_table().items) ++users[at(r)];
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
        const auto resources = graph_.resources(static_cast<std::int32_t>(lane));
        lanes_[lane].alone = resources.size() == 1 && users[at(resources[0])] == 1;
    }
}

void ReadyLanes::release(std::int32_t lane) {
    for (const std::int32_t r : graph_.resources(lane)) {
        busy_[at(r)] = 0;
        std::vector<std::int32_t>& parked = parked_[at(r)];
        candidates_.insert(candidates_.end(), parked.begin(), parked.end());
        parked.clear();
    }
}

void ReadyLanes::add(Slot slot) {
    const SlotGraph::Node& node = graph_[slot];
    Lane& lane = lanes_[at(node.lane)];
    lane.queue.push_back({node.key, slot});
    std::push_heap(lane.queue.begin(), lane.queue.end(), std::greater<>{});
    if (lane.is_known) return;
    lane.is_known = true;
    used_.push_back(node.lane);
    candidates_.push_back(node.lane);
}

Slot ReadyLanes::pop(Lane& lane) {
    const Slot slot = lane.queue.front().slot;
    std::pop_heap(lane.queue.begin(), lane.queue.end(), std::greater<>{});
    lane.queue.pop_back();
    return slot;
}

}  // namespace partita::plan
