// SPDX-License-Identifier: Apache-2.0
//
// The device sets among which configs are chosen, by size: stretches and strides of the machine's
// devices that start at multiples of themselves,
//
//     2 of 8, stride 1    01 23 45 67         stride 4 (a node each)    04 15 26 37
//
// and the same among the devices of the fastest kind, and among those that constraints leave ops.
#pragma once

#include <map>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/configs/device_sets.h"

namespace partita::search {

/// Device sets, and their numbers.
struct DeviceSetChoices {
    std::vector<plan::DeviceSet> sets;
    std::vector<DevicesId> ids;
};

/// By size, which are the divisors of the devices and of a node, and powers of two.
std::map<int, DeviceSetChoices> device_set_choices(const plan::Problem& problem,
                                                   DeviceSets& numbers);

}  // namespace partita::search
