// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/model/piece_graph.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "graph/op_graph.h"
#include "plan/evaluation/max_load.h"
#include "search/max_load/model/piece_incidence.h"
#include "search/max_load/model/piece_order.h"

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

/// Precedence between groups: edges between forward ops, and mirrored backward edges where a group
/// has nothing else to go by.
Edges precedence(const GroupGraph& groups) {
    const Problem& problem = groups.problem();
    const graph::OpGraph& graph = problem.graph();
    const std::vector<char> with_forward = groups_with_forward(groups);
    Edges edges;
    for (std::size_t i = 0; i < graph.tensor_count(); ++i) {
        const TensorId t(i);
        if (problem.facts().is_resident(t)) continue;
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
        if (problem.facts().is_resident(t)) continue;
        const OpId maker = graph.tensor(t).producer;
        PieceNet net;
        net.source = groups.groups().of[maker.index()];
        for (const graph::Use use : graph.uses(t)) {
            net.others.push_back(groups.groups().of[use.op.index()]);
        }
        net.cost =
            given ? graph.op(maker).given->communication_time.raw()
                  : groups.mean_copy_time({net.source, t, problem.facts().tensor_bytes(t)}).raw();
        nets.push_back(std::move(net));
    }
    return nets;
}

/// Without nets inside one vertex; nets with the same ends are one.
void normalize(std::vector<PieceNet>& nets) {
    for (PieceNet& net : nets) {
        std::sort(net.others.begin(), net.others.end());
        net.others.erase(std::unique(net.others.begin(), net.others.end()), net.others.end());
        std::erase(net.others, net.source);
    }
    std::erase_if(nets, [](const PieceNet& net) { return net.others.empty() || net.cost == 0; });
    const auto ends = [](const PieceNet& net) { return std::tie(net.source, net.others); };
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

/// Loads stay far below kNever, so that what follows may add without looking.
void check_range(const PieceGraph& graph) {
    Time communication;
    for (const PieceNet& net : graph.nets) communication += Time(net.cost);
    for (std::size_t k = 0; k < graph.kinds; ++k) {
        Time sum = communication;
        for (std::size_t v = 0; v < graph.size; ++v) {
            if (graph.time(v, k) != kNever) sum += Time(graph.time(v, k));
        }
        static_cast<void>(8 * sum);
    }
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

/// The only vertex before or behind each: -1: none, -2: several.
struct OnlyNeighbours {
    std::vector<std::int32_t> before;
    std::vector<std::int32_t> behind;
};

OnlyNeighbours only_neighbours(const PieceGraph& graph) {
    OnlyNeighbours only{std::vector<std::int32_t>(graph.size, -1),
                        std::vector<std::int32_t>(graph.size, -1)};
    const auto meet = [](std::int32_t& known, std::int32_t other) {
        known = known == -1 || known == other ? other : -2;
    };
    for (const auto& [from, to] : graph.edges) {
        meet(only.behind[static_cast<std::size_t>(from)], to);
        meet(only.before[static_cast<std::size_t>(to)], from);
    }
    return only;
}

bool takes_no_time(const PieceGraph& graph, std::size_t vertex) {
    for (std::size_t k = 0; k < graph.kinds; ++k) {
        if (graph.time(vertex, k) != 0) return false;
    }
    return true;
}

/// Do nets between `vertex` and `other` alone cost as much as those of the vertex that leave out
/// the other?
bool belongs_to(const PieceGraph& graph, const PieceIncidence& incidence, std::size_t vertex,
                std::int32_t other) {
    std::int64_t saved = 0;
    std::int64_t risked = 0;
    for (const PieceIncidence::Pin& pin : incidence.pins[vertex]) {
        const PieceNet& net = graph.nets[static_cast<std::size_t>(pin.net)];
        const bool has =
            net.source == other || std::binary_search(net.others.begin(), net.others.end(), other);
        if (!has) risked += net.cost;
        if (has && net.others.size() == 1) saved += net.cost;
    }
    return saved >= risked;
}

/// The vertex that each joins at once; itself: none.
std::vector<std::int32_t> free_joins(const PieceGraph& graph, bool roomy) {
    const OnlyNeighbours only = only_neighbours(graph);
    const PieceIncidence incidence = make_incidence(graph);
    std::vector<std::int32_t> to(graph.size);
    std::iota(to.begin(), to.end(), 0);
    std::vector<char> joined(graph.size, 0);  // one that others join stays until the next time
    for (std::size_t v = 0; v < graph.size; ++v) {
        if (joined[v] != 0 || (!roomy && graph.bytes[v] > 0) || !takes_no_time(graph, v)) continue;
        for (const std::int32_t other : {only.before[v], only.behind[v]}) {
            if (other < 0 || to[static_cast<std::size_t>(other)] != other) continue;
            if (!belongs_to(graph, incidence, v, other)) continue;
            to[v] = other;
            joined[static_cast<std::size_t>(other)] = 1;
            break;
        }
    }
    return to;
}

/// Joins vertices v that take no time and no memory (or where all fits any device: roomy) to the
/// only vertex u before or the only one behind. That loses nothing. Say v is in piece P and u in
/// another piece U; now v goes to U.
///
///     nets with u and v     P cut them, and now does so at most;      U alike
///     net {u v}             P and U cut it, and now neither does
///     nets without u        each of P and U may cut them now
///
/// so no load rises where the second kind costs no less than the third. Pieces stay contiguous: all
/// that comes before v comes before u, or all behind v behind u.
PieceGraph join_free_vertices(PieceGraph graph, bool roomy) {
    for (;;) {
        std::vector<std::int32_t> to = free_joins(graph, roomy);
        std::vector<std::int32_t> number(graph.size, -1);
        std::int32_t next = 0;
        for (std::size_t v = 0; v < graph.size; ++v) {
            if (std::cmp_equal(to[v], v)) number[v] = next++;
        }
        if (std::cmp_equal(next, graph.size)) return graph;
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
        PieceNet moved{.source = at(net.source), .others = {}, .cost = net.cost};
        for (const std::int32_t other : net.others) moved.others.push_back(at(other));
        result.nets.push_back(std::move(moved));
    }
    normalize(result.nets);
    return result;
}

PieceGraph make_piece_graph(const GroupGraph& groups, const PieceDevices& devices,
                            PieceMerging merging) {
    PieceGraph graph = graph_of_groups(groups, devices);
    const bool circles = merging == PieceMerging::circles_and_free;
    if (circles) {
        const Numbering parts = strong_components(graph.size, graph.edges);
        graph = contract(graph, parts.of, parts.size);
    }
    Bytes whole;
    for (const std::int64_t bytes : graph.bytes) whole += Bytes(bytes);
    const bool roomy = std::all_of(devices.kinds.begin(), devices.kinds.end(),
                                   [&](const PieceKind& kind) { return whole <= kind.capacity; });
    graph = join_free_vertices(std::move(graph), roomy);
    if (!circles) return graph;
    const std::size_t size = graph.size;
    return contract(graph, canonical_order(graph), size);
}

}  // namespace partita::search
