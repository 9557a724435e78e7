// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// Per device: does it run ops?
inline std::vector<char> used_devices(const Problem& problem, const Strategy& strategy) {
    std::vector<char> used(static_cast<std::size_t>(problem.device_count()), 0);
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        if (!problem.facts().has_forward(graph::OpId(i))) continue;
        const DeviceSet& devices = strategy.config(graph::OpId(i)).devices;
        for (int part = 0; part < devices.size(); ++part) {
            used[static_cast<std::size_t>(devices[part])] = 1;
        }
    }
    return used;
}

}  // namespace partita::plan
