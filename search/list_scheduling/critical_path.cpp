// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/critical_path.h"

#include <algorithm>

#include "search/list_scheduling/device_loads.h"

namespace partita::search {

namespace {

/// The longest path by computation on `device`; of equal ones the one with the smallest groups.
std::vector<std::size_t> longest_path(const GroupGraph& graph, int device) {
    std::vector<Time> to_sink(graph.size());
    std::vector<std::int32_t> next(graph.size(), -1);
    std::size_t start = 0;
    for (std::size_t g = graph.size(); g-- > 0;) {
        for (const GroupEdge& edge : graph.outgoing(g)) {
            const Time rest = to_sink[static_cast<std::size_t>(edge.group)];
            const bool first = next[g] < 0;
            if (!first && rest <= to_sink[static_cast<std::size_t>(next[g])]) continue;
            next[g] = edge.group;
        }
        to_sink[g] = graph.time(g, device);
        if (next[g] >= 0) to_sink[g] += to_sink[static_cast<std::size_t>(next[g])];
        if (to_sink[g] >= to_sink[start]) start = g;
    }
    std::vector<std::size_t> path;
    for (auto g = static_cast<std::int32_t>(start); g >= 0; g = next[static_cast<std::size_t>(g)]) {
        path.push_back(static_cast<std::size_t>(g));
    }
    return path;
}

}  // namespace

Placement place_critical_path(const GroupGraph& graph) {
    Placement placement(graph.size(), -1);
    if (graph.size() == 0) return placement;
    DeviceLoads loads(graph);
    const std::vector<int>& by_speed = graph.devices_by_speed();
    for (const std::size_t g : longest_path(graph, by_speed.front())) {
        placement[g] = loads.first_fit(g, by_speed);
        loads.add(g, placement[g]);
    }
    for (std::size_t g = 0; g < graph.size(); ++g) {
        if (placement[g] >= 0) continue;
        const int device = loads.least_loaded(g);
        placement[g] = device >= 0 ? device : loads.roomiest(g);
        loads.add(g, placement[g]);
    }
    return placement;
}

}  // namespace partita::search
