// SPDX-License-Identifier: Apache-2.0
#include "search/load_graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "search/piece_devices.h"
#include "search/piece_graph.h"

namespace partita::search {

namespace {

/// Nets as lists of vertices, in any order, with repetitions, one after the other.
struct NetLists {
    std::vector<std::uint32_t> offsets{0};
    std::vector<std::int32_t> pins;
    std::vector<std::int64_t> costs;

    void close(std::int64_t cost) {
        const auto begin = pins.begin() + offsets.back();
        std::sort(begin, pins.end());
        pins.erase(std::unique(begin, pins.end()), pins.end());
        if (pins.end() - begin < 2) {
            pins.resize(offsets.back());
            return;
        }
        offsets.push_back(static_cast<std::uint32_t>(pins.size()));
        costs.push_back(cost);
    }
};

/// Nets with the same pins become one.
void set_nets(LoadGraph& graph, const NetLists& lists) {
    const auto net = [&](std::size_t i) {
        return std::span(lists.pins)
            .subspan(lists.offsets[i], lists.offsets[i + 1] - lists.offsets[i]);
    };
    std::vector<std::size_t> order(lists.costs.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const auto compared = std::lexicographical_compare_three_way(net(a).begin(), net(a).end(),
                                                                     net(b).begin(), net(b).end());
        return compared != 0 ? compared < 0 : a < b;
    });
    for (const std::size_t i : order) {
        const auto pins = net(i);
        if (!graph.costs.empty() && std::ranges::equal(graph.pins[graph.costs.size() - 1], pins)) {
            graph.costs.back() += lists.costs[i];
            continue;
        }
        graph.pins.items.insert(graph.pins.items.end(), pins.begin(), pins.end());
        graph.pins.offsets.push_back(static_cast<std::uint32_t>(graph.pins.items.size()));
        graph.costs.push_back(lists.costs[i]);
    }
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
    NetLists lists;
    for (const PieceNet& net : from.nets) {
        lists.pins.push_back(net.home);
        lists.pins.insert(lists.pins.end(), net.others.begin(), net.others.end());
        lists.close(net.cost);
    }
    set_nets(graph, lists);
    set_incidence(graph);
    return problem;
}

LoadGraph contract(const LoadGraph& graph, const std::vector<std::int32_t>& to, std::size_t size) {
    LoadGraph result;
    result.size = size;
    result.kinds = graph.kinds;
    result.times.assign(size * graph.kinds, 0);
    result.bytes.assign(size, 0);
    for (std::size_t v = 0; v < graph.size; ++v) {
        const auto target = static_cast<std::size_t>(to[v]);
        result.bytes[target] += graph.bytes[v];
        for (std::size_t k = 0; k < graph.kinds; ++k) {
            std::int64_t& time = result.times[target * graph.kinds + k];
            time = std::min(kNever, time + graph.time(v, k));
        }
    }
    NetLists lists;
    for (std::size_t net = 0; net < graph.net_count(); ++net) {
        for (const std::int32_t v : graph.pins[net]) {
            lists.pins.push_back(to[static_cast<std::size_t>(v)]);
        }
        lists.close(graph.costs[net]);
    }
    set_nets(result, lists);
    set_incidence(result);
    return result;
}

}  // namespace partita::search
