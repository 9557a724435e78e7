// SPDX-License-Identifier: Apache-2.0
#include "search/configs/device_set_choices.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "search/configs/standard_configs.h"

namespace partita::search {

using graph::OpId;
using plan::DeviceSet;
using plan::Problem;

namespace {

/// Divisors and powers of two up to the number of devices.
std::set<int> sizes_of(int devices, int node) {
    std::set<int> sizes;
    for (int size = 1; size <= devices; ++size) {
        const bool is_power = (size & (size - 1)) == 0;
        if (is_power || devices % size == 0 || (size <= node && node % size == 0)) {
            sizes.insert(size);
        }
    }
    return sizes;
}

/// Lists of devices whose stretches split ops may share: all, the equal ones, and what constraints
/// leave ops, of many different lists the first.
std::vector<std::vector<int>> devices_to_share(const Problem& problem) {
    constexpr std::size_t kMostLists = 8;
    std::vector<std::vector<int>> lists;
    const auto add = [&](const std::vector<int>& devices) {
        if (std::find(lists.begin(), lists.end(), devices) == lists.end()) lists.push_back(devices);
    };
    add(usable_devices(problem));
    add(equal_devices(problem));
    if (problem.constraints().whole_ops()) return lists;
    for (std::size_t i = 0; i < problem.graph().op_count() && lists.size() < kMostLists; ++i) {
        if (problem.facts().has_forward(OpId(i)))
            add(problem.constraints().allowed_devices(OpId(i)));
    }
    return lists;
}

/// Stretches, and strides up to the size of a node. Sets of another list of devices may be there.
void add_sets(const std::vector<int>& devices, int size, int node, std::vector<DeviceSet>& sets) {
    const int count = static_cast<int>(devices.size());
    const int most_stride = size == 1 ? 1 : std::max(1, node);
    const auto others = static_cast<std::ptrdiff_t>(sets.size());
    for (int stride = 1; stride <= most_stride; ++stride) {
        if (most_stride % stride != 0) continue;
        for (int block = 0; block + (size - 1) * stride < count; block += size * stride) {
            for (int first = block; first < block + stride; ++first) {
                if (first + (size - 1) * stride >= count) break;
                DeviceSet set = some_of(devices, first, size, stride);
                const auto end = sets.begin() + others;
                if (std::find(sets.begin(), end, set) == end) sets.push_back(std::move(set));
            }
        }
    }
}

}  // namespace

std::map<int, DeviceSetChoices> device_set_choices(const Problem& problem, DeviceSets& numbers) {
    const int node = node_size(problem);
    std::map<int, DeviceSetChoices> choices;
    for (const std::vector<int>& devices : devices_to_share(problem)) {
        for (const int size : sizes_of(static_cast<int>(devices.size()), node)) {
            if (is_too_fine(problem, size, problem.policy().micro_batches)) continue;
            add_sets(devices, size, node, choices[size].sets);
        }
    }
    for (auto& [size, of_size] : choices) {
        for (const DeviceSet& set : of_size.sets) of_size.ids.push_back(numbers.id(set));
    }
    return choices;
}

}  // namespace partita::search
