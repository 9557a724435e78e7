// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/dfs.h"

#include <vector>

#include "search/list_scheduling/device_loads.h"
#include "search/list_scheduling/traffic.h"

namespace partita::search {

namespace {

/// Preorder; sources and successors by rising number.
std::vector<std::size_t> depth_first_order(const GroupGraph& graph) {
    std::vector<std::size_t> order;
    std::vector<char> seen(graph.size(), 0);
    std::vector<std::size_t> stack;
    for (std::size_t source = 0; source < graph.size(); ++source) {
        if (!graph.incoming(source).empty()) continue;
        stack.push_back(source);
        while (!stack.empty()) {
            const std::size_t g = stack.back();
            stack.pop_back();
            if (seen[g] != 0) continue;
            seen[g] = 1;
            order.push_back(g);
            const auto outgoing = graph.outgoing(g);
            for (std::size_t i = outgoing.size(); i-- > 0;) {
                const auto next = static_cast<std::size_t>(outgoing[i].group);
                if (seen[next] == 0) stack.push_back(next);
            }
        }
    }
    return order;
}

}  // namespace

Placement place_dfs(const GroupGraph& graph) {
    Placement placement(graph.size(), -1);
    DeviceLoads loads(graph);
    Traffic traffic(graph);
    for (const std::size_t g : depth_first_order(graph)) {
        traffic.look_at(g, placement);
        int best = -1;
        double best_score = 0;
        for (const int d : graph.devices(g)) {
            if (!loads.fits(g, d)) continue;
            const double score = traffic.on(d) * static_cast<double>(loads.finish(g, d).raw());
            if (best >= 0 && score >= best_score) continue;
            best = d;
            best_score = score;
        }
        placement[g] = best >= 0 ? best : loads.roomiest(g);
        loads.add(g, placement[g]);
    }
    return placement;
}

}  // namespace partita::search
