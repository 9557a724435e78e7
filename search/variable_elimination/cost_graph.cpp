// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/cost_graph.h"

#include <algorithm>
#include <cstddef>

namespace partita::search {

namespace {

constexpr int kMostRounds = 100;

std::size_t at(int v) {
    return static_cast<std::size_t>(v);
}

/// Of one variable; `edges`: those it is on.
bool improve(const CostGraph& graph, int v, const std::vector<std::size_t>& edges,
             std::vector<int>& choices) {
    std::vector<std::int64_t> sums = graph.nodes[at(v)];
    for (const std::size_t e : edges) {
        const CostGraph::Edge& edge = graph.edges[e];
        const bool first = edge.a == v;
        const std::size_t other = at(choices[at(first ? edge.b : edge.a)]);
        const std::size_t columns = graph.nodes[at(edge.b)].size();
        for (std::size_t k = 0; k < sums.size(); ++k) {
            sums[k] += (*edge.costs)[first ? k * columns + other : other * columns + k];
        }
    }
    int& choice = choices[at(v)];
    const auto best = std::ranges::min_element(sums);
    if (*best == sums[at(choice)]) return false;
    choice = static_cast<int>(best - sums.begin());
    return true;
}

}  // namespace

std::int64_t value_of(const CostGraph& graph, const std::vector<int>& choices) {
    std::int64_t value = 0;
    for (std::size_t v = 0; v < graph.nodes.size(); ++v) value += graph.nodes[v][at(choices[v])];
    for (const CostGraph::Edge& edge : graph.edges) {
        const std::size_t columns = graph.nodes[at(edge.b)].size();
        value += (*edge.costs)[at(choices[at(edge.a)]) * columns + at(choices[at(edge.b)])];
    }
    return value;
}

void descend(const CostGraph& graph, std::vector<int>& choices) {
    std::vector<std::vector<std::size_t>> edges_of(graph.nodes.size());
    for (std::size_t e = 0; e < graph.edges.size(); ++e) {
        edges_of[at(graph.edges[e].a)].push_back(e);
        edges_of[at(graph.edges[e].b)].push_back(e);
    }
    bool better = true;
    for (int round = 0; round < kMostRounds && better; ++round) {
        better = false;
        for (std::size_t v = 0; v < graph.nodes.size(); ++v) {
            better |= improve(graph, static_cast<int>(v), edges_of[v], choices);
        }
    }
}

}  // namespace partita::search
