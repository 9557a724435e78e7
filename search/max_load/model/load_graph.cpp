// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/load_graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "search/max_load/model/piece_devices.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

/// Whoever of its ends makes the result.
std::vector<LoadNet> nets_of(const std::vector<PieceNet>& from) {
    std::vector<LoadNet> nets;
    for (const PieceNet& net : from) {
        std::vector<std::int32_t> pins = net.others;
        pins.insert(std::upper_bound(pins.begin(), pins.end(), net.source), net.source);
        nets.push_back({std::move(pins), net.cost});
    }
    return nets;
}

/// The nets of each vertex, rising.
void set_incidence(LoadGraph& graph) {
    std::vector<std::uint32_t>& offsets = graph.nets.offsets;
    offsets.assign(graph.size + 1, 0);
    for (const std::int32_t v : graph.pins.items) ++offsets[static_cast<std::size_t>(v) + 1];
    std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
    graph.nets.items.resize(graph.pins.items.size());
    std::vector<std::uint32_t> next(offsets.begin(), offsets.end() - 1);
    for (std::size_t net = 0; net < graph.net_count(); ++net) {
        for (const std::int32_t v : graph.pins[net]) {
            graph.nets.items[next[static_cast<std::size_t>(v)]++] = static_cast<std::int32_t>(net);
        }
    }
}

}  // namespace

void set_nets(LoadGraph& graph, std::vector<LoadNet> nets) {
    std::ranges::sort(nets);
    for (std::size_t i = 0; i < nets.size(); ++i) {
        const auto& [pins, cost] = nets[i];
        if (i > 0 && pins == nets[i - 1].pins) {
            graph.costs.back() += cost;
            continue;
        }
        graph.pins.add_row(pins);
        graph.costs.push_back(cost);
    }
    set_incidence(graph);
}

LoadProblem make_load_problem(const GroupGraph& groups) {
    const PieceDevices pieces = make_piece_devices(groups);
    const PieceGraph from = make_piece_graph(groups, pieces, PieceMerging::free_only);
    LoadProblem problem;
    problem.of = from.of;
    problem.devices.resize(static_cast<std::size_t>(groups.device_count()));
    for (std::size_t k = 0; k < pieces.kinds.size(); ++k) {
        for (const int device : pieces.kinds[k].devices) {
            problem.devices[static_cast<std::size_t>(device)] = {
                .kind = k,
                .capacity = pieces.kinds[k].capacity.raw(),
                .communicates = pieces.kinds[k].communicates};
        }
    }
    LoadGraph& graph = problem.graph;
    graph.size = from.size;
    graph.kinds = from.kinds;
    graph.times = from.times;
    graph.bytes = from.bytes;
    set_nets(graph, nets_of(from.nets));
    return problem;
}

}  // namespace partita::search
