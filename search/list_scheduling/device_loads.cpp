// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/device_loads.h"

#include <algorithm>

namespace partita::search {

DeviceLoads::DeviceLoads(const GroupGraph& graph)
    : graph_(graph),
      load_(static_cast<std::size_t>(graph.device_count())),
      bytes_(load_.size()),
      limit_(load_.size()) {
    for (int d = 0; d < graph.device_count(); ++d) {
        set_limit(d, graph.problem().constraints().memory_capacity(d));
    }
}

void DeviceLoads::add(std::size_t group, int device) {
    const auto d = static_cast<std::size_t>(device);
    load_[d] += graph_.time(group, device);
    bytes_[d] += graph_.bytes(group);
}

void DeviceLoads::remove(std::size_t group, int device) {
    const auto d = static_cast<std::size_t>(device);
    load_[d] -= graph_.time(group, device);
    bytes_[d] -= graph_.bytes(group);
}

int DeviceLoads::least_loaded(std::size_t group) const {
    int best = -1;
    for (const int d : graph_.devices(group)) {
        if (!fits(group, d)) continue;
        if (best < 0 || finish(group, d) < finish(group, best)) best = d;
    }
    return best;
}

int DeviceLoads::roomiest(std::size_t group) const {
    int best = graph_.devices(group).front();
    for (const int d : graph_.devices(group)) {
        if (room(d) > room(best)) best = d;
    }
    return best;
}

int DeviceLoads::first_fit(std::size_t group, const std::vector<int>& preferred) const {
    const std::vector<int>& allowed = graph_.devices(group);
    for (const int d : preferred) {
        if (fits(group, d) && std::binary_search(allowed.begin(), allowed.end(), d)) return d;
    }
    return roomiest(group);
}

}  // namespace partita::search
