// SPDX-License-Identifier: Apache-2.0
#include "search/piece_graph.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "graph/op_graph.h"
#include "plan/max_load.h"
#include "search/piece_order.h"

namespace partita::search {

using graph::OpId;
using graph::TensorId;
using plan::Problem;

namespace {

using Edges = std::vector<std::pair<std::int32_t, std::int32_t>>;

bool is_backward(const Problem& problem, OpId op) {
    const auto& given = problem.graph().op(op).given;
    return given && given->backward;
}

/// Groups that hold a forward op.
std::vector<char> groups_with_forward(const GroupGraph& groups) {
    std::vector<char> with(groups.size(), 0);
    for (std::size_t g = 0; g < groups.size(); ++g) {
        for (const OpId op : groups.groups().members[g]) {
            if (!is_backward(groups.problem(), op)) with[g] = 1;
        }
    }
    return with;
}

void normalize(Edges& edges) {
    std::erase_if(edges, [](const auto& edge) { return edge.first == edge.second; });
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
}

/// Precedence between groups: edges between forward ops, and mirrored backward edges where a group has
/// nothing else to go by.
Edges precedence(const GroupGraph& groups) {
    const Problem& problem = groups.problem();
    const graph::OpGraph& graph = problem.graph();
    const std::vector<char> with_forward = groups_with_forward(groups);
    Edges edges;
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        const TensorId t(i);
        if (problem.is_resident(t)) continue;
        const OpId maker = graph.tensor(t).producer;
        const std::int32_t from = groups.groups().of[maker.index()];
        for (const graph::Use use : graph.uses(t)) {
            const std::int32_t to = groups.groups().of[use.op.index()];
            const bool backward = is_backward(problem, maker);
            if (backward != is_backward(problem, use.op)) continue;
            if (!backward) {
                edges.emplace_back(from, to);
            } else if (with_forward[static_cast<std::size_t>(from)] == 0 ||
                       with_forward[static_cast<std::size_t>(to)] == 0) {
                edges.emplace_back(to, from);
            }
        }
    }
    normalize(edges);
    return edges;
}

std::vector<PieceNet> nets_of(const GroupGraph& groups, bool given) {
    const Problem& problem = groups.problem();
    const graph::OpGraph& graph = problem.graph();
    std::vector<PieceNet> nets;
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        const TensorId t(i);
        if (problem.is_resident(t)) continue;
        const OpId maker = graph.tensor(t).producer;
        PieceNet net;
        net.home = groups.groups().of[maker.index()];
        for (const graph::Use use : graph.uses(t)) {
            net.others.push_back(groups.groups().of[use.op.index()]);
        }
        net.cost = given ? graph.op(maker).given->communication_time.raw()
                         : groups.mean_copy_time({net.home, t, problem.tensor_bytes(t)}).raw();
        nets.push_back(std::move(net));
    }
    return nets;
}

/// Without nets inside one vertex; nets with the same ends are one.
void normalize(std::vector<PieceNet>& nets) {
    for (PieceNet& net : nets) {
        std::sort(net.others.begin(), net.others.end());
        net.others.erase(std::unique(net.others.begin(), net.others.end()), net.others.end());
        std::erase(net.others, net.home);
    }
    std::erase_if(nets, [](const PieceNet& net) { return net.others.empty() || net.cost == 0; });
    const auto ends = [](const PieceNet& net) { return std::tie(net.home, net.others); };
    std::sort(nets.begin(), nets.end(),
              [&](const PieceNet& a, const PieceNet& b) { return ends(a) < ends(b); });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < nets.size(); ++i) {
        if (kept > 0 && ends(nets[kept - 1]) == ends(nets[i])) {
            nets[kept - 1].cost += nets[i].cost;
        } else {
            if (kept != i) nets[kept] = std::move(nets[i]);
            ++kept;
        }
    }
    nets.resize(kept);
}

/// Sums of loads stay below kNever, so that what follows may add without looking.
void check_range(const PieceGraph& graph) {
    Time sum;
    for (const std::int64_t time : graph.times) {
        if (time != kNever) sum += Time(time);
    }
    for (const PieceNet& net : graph.nets) sum += Time(net.cost);
    static_cast<void>(8 * sum);
}

PieceGraph graph_of_groups(const GroupGraph& groups, const PieceDevices& devices) {
    const bool given = plan::has_given_costs(groups.problem());
    PieceGraph graph;
    graph.size = groups.size();
    graph.kinds = devices.kinds.size();
    graph.overlap = !given;
    graph.of.resize(graph.size);
    std::iota(graph.of.begin(), graph.of.end(), 0);
    for (std::size_t g = 0; g < graph.size; ++g) {
        const std::vector<int>& allowed = groups.devices(g);
        for (const PieceKind& kind : devices.kinds) {
            const int device = kind.devices.front();
            const bool usable = std::binary_search(allowed.begin(), allowed.end(), device);
            graph.times.push_back(usable ? groups.time(g, device).raw() : kNever);
        }
        graph.bytes.push_back(groups.bytes(g).raw());
    }
    graph.edges = precedence(groups);
    graph.nets = nets_of(groups, given);
    check_range(graph);
    normalize(graph.nets);
    return graph;
}

struct Vertices {
    std::vector<std::int32_t> neighbour;  ///< -1: none yet; -2: several
    std::vector<char> tied;               ///< all its nets reach that neighbour
};

Vertices single_neighbours(const PieceGraph& graph) {
    Vertices all{std::vector<std::int32_t>(graph.size, -1), std::vector<char>(graph.size, 1)};
    const auto meet = [&](std::int32_t vertex, std::int32_t other) {
        std::int32_t& known = all.neighbour[static_cast<std::size_t>(vertex)];
        known = known == -1 || known == other ? other : -2;
    };
    for (const auto& [from, to] : graph.edges) {
        meet(from, to);
        meet(to, from);
    }
    for (const PieceNet& net : graph.nets) {
        const auto has = [&](std::int32_t vertex) {
            return vertex == net.home ||
                   std::binary_search(net.others.begin(), net.others.end(), vertex);
        };
        const auto look = [&](std::int32_t vertex) {
            const auto v = static_cast<std::size_t>(vertex);
            if (!has(all.neighbour[v])) all.tied[v] = 0;
        };
        look(net.home);
        std::for_each(net.others.begin(), net.others.end(), look);
    }
    return all;
}

/// A vertex that costs nothing anywhere, with one neighbour, which all its nets reach: wherever it is, its
/// piece and that of the neighbour lose no more than before when it joins the neighbour, and pieces stay
/// contiguous because nothing else precedes or follows it. Returns the graph without such vertices.
PieceGraph join_free_ends(PieceGraph graph, bool roomy) {
    for (;;) {
        const Vertices all = single_neighbours(graph);
        std::vector<std::int32_t> to(graph.size);
        std::iota(to.begin(), to.end(), 0);
        std::vector<char> busy(graph.size, 0);
        bool any = false;
        for (std::size_t v = 0; v < graph.size; ++v) {
            const std::int32_t u = all.neighbour[v];
            if (u < 0 || all.tied[v] == 0 || (!roomy && graph.bytes[v] > 0)) continue;
            const auto begin = graph.times.begin() + static_cast<std::ptrdiff_t>(v * graph.kinds);
            const bool free = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(graph.kinds),
                                          [](std::int64_t time) { return time == 0; });
            // One that others join in this round stays where it is until the next.
            if (!free || busy[v] != 0 || to[static_cast<std::size_t>(u)] != u) continue;
            to[v] = u;
            busy[static_cast<std::size_t>(u)] = 1;
            any = true;
        }
        if (!any) return graph;
        std::vector<std::int32_t> number(graph.size, -1);
        std::int32_t next = 0;
        for (std::size_t v = 0; v < graph.size; ++v) {
            if (std::cmp_equal(to[v], v)) number[v] = next++;
        }
        for (std::int32_t& vertex : to) vertex = number[static_cast<std::size_t>(vertex)];
        graph = contract(graph, to, static_cast<std::size_t>(next));
    }
}

}  // namespace

PieceGraph contract(const PieceGraph& graph, const std::vector<std::int32_t>& to,
                    std::size_t size) {
    const auto at = [&](std::int32_t vertex) { return to[static_cast<std::size_t>(vertex)]; };
    PieceGraph result;
    result.size = size;
    result.kinds = graph.kinds;
    result.overlap = graph.overlap;
    for (const std::int32_t vertex : graph.of) result.of.push_back(at(vertex));
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
    for (const auto& [from, next] : graph.edges) result.edges.emplace_back(at(from), at(next));
    normalize(result.edges);
    for (const PieceNet& net : graph.nets) {
        PieceNet moved{.home = at(net.home), .others = {}, .cost = net.cost};
        for (const std::int32_t other : net.others) moved.others.push_back(at(other));
        result.nets.push_back(std::move(moved));
    }
    normalize(result.nets);
    return result;
}

PieceGraph make_piece_graph(const GroupGraph& groups, const PieceDevices& devices) {
    PieceGraph graph = graph_of_groups(groups, devices);
    const Numbering parts = strong_components(graph.size, graph.edges);
    graph = contract(graph, parts.of, parts.size);
    Bytes whole;
    for (const std::int64_t bytes : graph.bytes) whole += Bytes(bytes);
    const bool roomy = std::all_of(devices.kinds.begin(), devices.kinds.end(),
                                   [&](const PieceKind& kind) { return whole <= kind.capacity; });
    graph = join_free_ends(std::move(graph), roomy);
    const std::size_t size = graph.size;
    return contract(graph, canonical_order(graph), size);
}

}  // namespace partita::search
