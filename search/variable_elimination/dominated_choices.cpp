// SPDX-License-Identifier: Apache-2.0
#include "search/variable_elimination/dominated_choices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <unordered_map>

namespace partita::search {

namespace {

using Cost = std::int64_t;

/// [j][k]: how much more j can cost than k in one table.
using Losses = std::vector<Cost>;

/// `own`: choices of the variable, `other` of its neighbour; strides of either in the table.
Losses losses_of(const std::vector<Cost>& costs, std::size_t own, std::size_t own_stride,
                 std::size_t other, std::size_t other_stride) {
    Losses losses(own * own, std::numeric_limits<Cost>::min());
    for (std::size_t j = 0; j < own; ++j) {
        for (std::size_t k = 0; k < own; ++k) {
            Cost most = std::numeric_limits<Cost>::min();
            for (std::size_t c = 0; c < other; ++c) {
                const Cost* at = costs.data() + c * other_stride;
                most = std::max(most, at[j * own_stride] - at[k * own_stride]);
            }
            losses[j * own + k] = most;
        }
    }
    return losses;
}

/// Of one table, seen from either side.
struct Sides {
    Losses of_a;
    Losses of_b;
};

std::vector<int> kept(const std::vector<Cost>& losses, std::size_t size) {
    std::vector<char> alive(size, 1);
    for (std::size_t k = 0; k < size; ++k) {
        for (std::size_t j = 0; j < size && alive[k] != 0; ++j) {
            if (j == k || alive[j] == 0) continue;
            const Cost loss = losses[j * size + k];
            if (loss < 0 || (loss == 0 && (j < k || losses[k * size + j] > 0))) alive[k] = 0;
        }
    }
    std::vector<int> kept;
    for (std::size_t k = 0; k < size; ++k) {
        if (alive[k] != 0) kept.push_back(static_cast<int>(k));
    }
    return kept;
}

}  // namespace

std::vector<std::vector<int>> undominated_choices(const CostGraph& graph) {
    const auto count = [&](int v) { return graph.nodes[static_cast<std::size_t>(v)].size(); };
    std::vector<Losses> losses;
    for (const std::vector<Cost>& node : graph.nodes) {
        losses.push_back(losses_of(node, node.size(), 1, 1, 0));
    }
    std::unordered_map<const std::vector<Cost>*, Sides> known;  // looked up only
    const auto add = [&](int v, const Losses& of) {
        Losses& sums = losses[static_cast<std::size_t>(v)];
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of[i];
    };
    for (const CostGraph::Edge& edge : graph.edges) {
        const auto [sides, is_new] = known.try_emplace(edge.costs);
        const std::size_t rows = count(edge.a);
        const std::size_t columns = count(edge.b);
        if (is_new) {
            sides->second.of_a = losses_of(*edge.costs, rows, columns, columns, 1);
            sides->second.of_b = losses_of(*edge.costs, columns, 1, rows, columns);
        }
        add(edge.a, sides->second.of_a);
        add(edge.b, sides->second.of_b);
    }
    std::vector<std::vector<int>> choices;
    for (std::size_t v = 0; v < losses.size(); ++v) {
        choices.push_back(kept(losses[v], graph.nodes[v].size()));
    }
    return choices;
}

}  // namespace partita::search
