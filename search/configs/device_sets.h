// SPDX-License-Identifier: Apache-2.0
//
// Device sets by number: equal sets have equal numbers. Number 0 is the empty set, 1 + d the device
// d alone; others are numbered as they come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "plan/strategy/strategy.h"

namespace partita::search {

using DevicesId = std::int32_t;

class DeviceSets {
public:
    explicit DeviceSets(int device_count);

    /// Numbers the set if it is new.
    DevicesId id(const plan::DeviceSet& set);
    static DevicesId single(int device) { return 1 + device; }

    /// The reference stays valid.
    [[nodiscard]] const plan::DeviceSet& operator[](DevicesId id) const { return sets_[at(id)]; }
    [[nodiscard]] int size(DevicesId id) const { return facts_[at(id)].size; }
    /// -1 of the empty set.
    [[nodiscard]] int first(DevicesId id) const { return facts_[at(id)].first; }
    /// Devices of the machine, no two of them the same.
    [[nodiscard]] bool is_valid(DevicesId id) const { return facts_[at(id)].valid; }

private:
    struct Facts {
        int size = 0;
        int first = -1;
        bool valid = false;
    };
    struct Hash {
        std::size_t operator()(const plan::DeviceSet& set) const;
    };

    static std::size_t at(DevicesId id) { return static_cast<std::size_t>(id); }
    [[nodiscard]] bool find_valid(const plan::DeviceSet& set) const;

    int device_count_;
    std::deque<plan::DeviceSet> sets_;
    std::vector<Facts> facts_;
    std::unordered_map<plan::DeviceSet, DevicesId, Hash> ids_;  ///< looked up only
};

}  // namespace partita::search
