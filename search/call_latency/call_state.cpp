// SPDX-License-Identifier: Apache-2.0
#include "search/call_latency/call_state.h"

#include <algorithm>

namespace partita::search {

CallState::CallState(const CallSpace& space, double guidance)
    : space_(space),
      guidance_(guidance),
      calls_(space.costs),
      slots_(space.size()),
      devices_(space.costs.ops),
      used_(space.slot_count()) {
    std::vector<std::int32_t> first;
    for (std::size_t g = 0; g < space.size(); ++g) first.push_back(space.slots[g].front());
    place(first);
}

void CallState::place(const std::vector<std::int32_t>& slots) {
    changes_.clear();
    overflow_ = 0;
    std::ranges::fill(used_, 0);
    for (std::size_t g = 0; g < slots.size(); ++g) {
        slots_[g] = slots[g];
        if (slots[g] != space_.cpus) used_[static_cast<std::size_t>(slots[g])] += space_.bytes[g];
        for (const graph::OpId op : space_.groups->groups().members[g]) {
            devices_[op.index()] = space_.device_of(g, slots[g]);
        }
    }
    for (std::size_t s = 0; s < used_.size(); ++s) {
        overflow_ += std::max<std::int64_t>(0, used_[s] - space_.capacity[s]);
    }
}

void CallState::put(std::int32_t group, std::int32_t slot) {
    const auto g = static_cast<std::size_t>(group);
    const auto use = [&](std::int32_t of, std::int64_t bytes) {
        if (of == space_.cpus) return;
        overflow_ -= std::max<std::int64_t>(0, -room(of));
        used_[static_cast<std::size_t>(of)] += bytes;
        overflow_ += std::max<std::int64_t>(0, -room(of));
    };
    use(slots_[g], -space_.bytes[g]);
    use(slot, space_.bytes[g]);
    slots_[g] = slot;
    const std::int32_t device = space_.device_of(g, slot);
    for (const graph::OpId op : space_.groups->groups().members[g]) devices_[op.index()] = device;
}

void CallState::move(std::int32_t group, std::int32_t slot) {
    changes_.emplace_back(group, slots_[static_cast<std::size_t>(group)]);
    put(group, slot);
}

CallScore CallState::score() {
    CallScore score{.overflow = overflow_, .latency = calls_.run(devices_), .energy = 0};
    double lengths = 0;
    for (const plan::SubgraphCall& call : calls_.calls()) {
        lengths += static_cast<double>(call.length);
    }
    score.energy = static_cast<double>(score.latency) + guidance_ * lengths;
    return score;
}

void CallState::reject() {
    for (std::size_t i = changes_.size(); i-- > 0;) put(changes_[i].first, changes_[i].second);
    changes_.clear();
}

}  // namespace partita::search
