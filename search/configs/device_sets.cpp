// SPDX-License-Identifier: Apache-2.0
#include "search/configs/device_sets.h"

#include <algorithm>

#include "search/support/random.h"

namespace partita::search {

using plan::DeviceSet;

DeviceSets::DeviceSets(int device_count) : device_count_(device_count) {
    id({});
    for (int device = 0; device < device_count; ++device) id(DeviceSet::single(device));
}

DevicesId DeviceSets::id(const DeviceSet& set) {
    const auto [known, is_new] = ids_.try_emplace(set, static_cast<DevicesId>(sets_.size()));
    if (is_new) {
        sets_.push_back(set);
        facts_.push_back(
            {.size = set.size(), .first = set.empty() ? -1 : set[0], .valid = find_valid(set)});
    }
    return known->second;
}

bool DeviceSets::find_valid(const DeviceSet& set) const {
    std::vector<int> devices;
    for (int i = 0; i < set.size(); ++i) devices.push_back(set[i]);
    std::sort(devices.begin(), devices.end());
    if (devices.empty() || devices.front() < 0 || devices.back() >= device_count_) return false;
    return std::adjacent_find(devices.begin(), devices.end()) == devices.end();
}

std::size_t DeviceSets::Hash::operator()(const DeviceSet& set) const {
    std::uint64_t hash = mix(static_cast<std::uint64_t>(set.size()));
    const auto add = [&](int value) { hash = mix(hash ^ static_cast<std::uint64_t>(value)); };
    add(set.first());
    add(set.stride());
    for (int i = 0; set.is_list() && i < set.size(); ++i) add(set[i]);
    return hash;
}

}  // namespace partita::search
