// SPDX-License-Identifier: Apache-2.0
#include "search/call_latency/call_space.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/csr.h"

namespace partita::search {

CallSpace::CallSpace(const GroupGraph& graph) : groups(&graph), costs(graph.problem()) {
    bytes.resize(graph.size());
    for (std::size_t g = 0; g < graph.size(); ++g) {
        for (const graph::OpId op : graph.groups().members[g]) bytes[g] += costs.bytes[op.index()];
    }
    find_slots();
    connect();
}

void CallSpace::find_slots() {
    slot_of_device_.assign(costs.devices, -1);
    std::int32_t first_cpu = -1;
    for (std::size_t d = 0; d < costs.devices; ++d) {
        if (costs.is_accelerator[d] == 0) {
            if (first_cpu < 0) first_cpu = static_cast<std::int32_t>(d);
            continue;
        }
        slot_of_device_[d] = static_cast<std::int32_t>(device.size());
        device.push_back(static_cast<std::int32_t>(d));
        capacity.push_back(costs.capacity[d]);
    }
    if (first_cpu >= 0) {
        cpus = static_cast<std::int32_t>(device.size());
        device.push_back(first_cpu);
        capacity.push_back(std::numeric_limits<std::int64_t>::max());
        std::ranges::replace(slot_of_device_, -1, cpus);
    }
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t g = 0; g < size(); ++g) {
        std::int32_t cpu = -1;
        for (const int d : groups->devices(g)) {
            const std::int32_t slot = slot_of_device_[static_cast<std::size_t>(d)];
            if (slot == cpus && cpu < 0) cpu = d;
            pairs.emplace_back(static_cast<std::int32_t>(g), slot);
        }
        cpu_of_.push_back(cpu);
    }
    slots = to_csr(pairs, size());
    for (std::size_t g = 0; g < size(); ++g) {
        anywhere_.push_back(slots[g].size() == slot_count() ? 1 : 0);
    }
}

void CallSpace::connect() {
    std::vector<std::pair<std::int32_t, std::int32_t>> forth;
    std::vector<std::pair<std::int32_t, std::int32_t>> back;
    const std::vector<std::int32_t>& group_of = groups->groups().of;
    for (std::size_t op = 0; op < costs.ops; ++op) {
        for (const std::int32_t next : costs.after[op]) {
            const std::int32_t from = group_of[op];
            const std::int32_t to = group_of[static_cast<std::size_t>(next)];
            if (from == to) continue;
            forth.emplace_back(from, to);
            back.emplace_back(to, from);
        }
    }
    successors = to_csr(forth, size());
    predecessors = to_csr(back, size());
    forth.insert(forth.end(), back.begin(), back.end());
    neighbours = to_csr(forth, size());
}

bool CallSpace::allows(std::size_t group, std::int32_t slot) const {
    if (anywhere_[group] != 0) return true;
    const auto allowed = slots[group];
    return std::binary_search(allowed.begin(), allowed.end(), slot);
}

std::int32_t CallSpace::device_of(std::size_t group, std::int32_t slot) const {
    return slot == cpus ? cpu_of_[group] : device[static_cast<std::size_t>(slot)];
}

std::vector<std::int32_t> CallSpace::slots_of(const Placement& placement) const {
    std::vector<std::int32_t> of;
    of.reserve(placement.size());
    for (const std::int32_t d : placement)
        of.push_back(slot_of_device_[static_cast<std::size_t>(d)]);
    return of;
}

Placement CallSpace::placement_of(const std::vector<std::int32_t>& slots_of_groups) const {
    Placement placement;
    placement.reserve(slots_of_groups.size());
    for (std::size_t g = 0; g < slots_of_groups.size(); ++g) {
        placement.push_back(device_of(g, slots_of_groups[g]));
    }
    return placement;
}

}  // namespace partita::search
