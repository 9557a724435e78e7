// SPDX-License-Identifier: Apache-2.0
#include "search/list_scheduling/batch_split.h"

#include <algorithm>
#include <numeric>

#include "search/list_scheduling/device_loads.h"

namespace partita::search {

namespace {

std::vector<std::size_t> follow(const GroupGraph& graph, std::size_t start,
                                const Placement& placement) {
    std::vector<std::size_t> path{start};
    for (std::int32_t next = 0; next >= 0;) {
        next = -1;
        for (const GroupEdge& edge : graph.outgoing(path.back())) {
            const auto to = static_cast<std::size_t>(edge.group);
            if (placement[to] >= 0) continue;
            const bool longer = next < 0 || graph.path_to_sink(to) >
                                                graph.path_to_sink(static_cast<std::size_t>(next));
            if (longer) next = edge.group;
        }
        if (next >= 0) path.push_back(static_cast<std::size_t>(next));
    }
    return path;
}

/// Sums of a path per device class, and which devices may take it whole.
class PathPlacer {
public:
    explicit PathPlacer(const GroupGraph& graph) : graph_(graph), loads_(graph) {}

    void place(const std::vector<std::size_t>& path, Placement& placement) {
        const int whole = best_device(path);
        for (const std::size_t g : path) {
            int device = whole >= 0 ? whole : loads_.least_loaded(g);
            if (device < 0) device = loads_.roomiest(g);
            placement[g] = device;
            loads_.add(g, device);
        }
    }

private:
    /// -1: no device may take the path and has room for it.
    [[nodiscard]] int best_device(const std::vector<std::size_t>& path) const {
        const plan::Problem& problem = graph_.problem();
        const auto classes = static_cast<std::size_t>(problem.prices().device_class_count());
        std::vector<Time> time(classes);
        std::vector<char> known(classes, 0);
        std::vector<int> users(static_cast<std::size_t>(graph_.device_count()), 0);
        Bytes bytes;
        bool anywhere = true;
        for (const std::size_t g : path) {
            bytes += graph_.bytes(g);
            anywhere = anywhere && graph_.groups().allowed[g] == 0;
        }
        for (const std::size_t g : path) {
            if (anywhere) break;
            for (const int d : graph_.devices(g)) ++users[static_cast<std::size_t>(d)];
        }
        int best = -1;
        Time best_finish;
        for (int d = 0; d < graph_.device_count(); ++d) {
            const bool allowed =
                anywhere || users[static_cast<std::size_t>(d)] == static_cast<int>(path.size());
            if (!allowed || bytes > loads_.room(d)) continue;
            const auto c = static_cast<std::size_t>(problem.prices().device_class(d));
            if (known[c] == 0) {
                for (const std::size_t g : path) time[c] += graph_.time(g, d);
                known[c] = 1;
            }
            const Time finish = loads_.load(d) + time[c];
            if (best >= 0 && finish >= best_finish) continue;
            best = d;
            best_finish = finish;
        }
        return best;
    }

    const GroupGraph& graph_;
    DeviceLoads loads_;
};

}  // namespace

Placement place_batch_split(const GroupGraph& graph) {
    Placement placement(graph.size(), -1);
    std::vector<std::size_t> order(graph.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return graph.path_to_sink(a) > graph.path_to_sink(b);
    });
    PathPlacer placer(graph);
    for (const std::size_t g : order) {
        if (placement[g] < 0) placer.place(follow(graph, g, placement), placement);
    }
    return placement;
}

}  // namespace partita::search
