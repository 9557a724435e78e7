// SPDX-License-Identifier: Apache-2.0
//
// Routes: the cheapest ways to each vertex of a machine, by Dijkstra's algorithm.
//
//     weight of a channel = latency + time of 1 MiB at its bandwidth
//
// The route has the smallest (sum of weights, hops, sum of latencies); among equal ones, at each
// step from the source on, the smallest channel id. Weights add up, so every rest of a route is a
// route, and one tree per destination, an arc for each vertex, holds them all.
//
// A tree is computed when its destination is first asked for: a machine of 4,096 devices has 16
// million pairs, of which most plans use few. Optimal: yes, for 1 MiB. Ends: always.
// Threads: any number may ask. Source: Dijkstra, Numerische Mathematik 1, 1959.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/units.h"

namespace partita::cost {

struct Channel;

/// One direction of a channel.
struct Arc {
    std::int32_t from = 0;
    std::int32_t to = 0;
    std::int32_t channel = 0;
};

class Routes {
public:
    /// `arcs` in rising order of channels.
    Routes(int vertices, std::vector<Arc> arcs, std::span<const Channel> channels);

    /// Calls visit(arc) along the route; it must be there.
    template <class Visit>
    void walk(int from, int to, Visit visit) const {
        assert(from != to);
        const std::vector<std::int32_t>& arcs = tree(to);
        for (int vertex = from; vertex != to;) {
            const Arc& arc =
                arcs_[static_cast<std::size_t>(arcs[static_cast<std::size_t>(vertex)])];
            visit(arc);
            vertex = arc.to;
        }
    }

    /// Is there a way from one vertex to another?
    [[nodiscard]] bool connects(int from, int to) const {
        return tree(to)[static_cast<std::size_t>(from)] >= 0;
    }

    /// Two of the first `devices` vertices with no way from the first to the second, if there are.
    [[nodiscard]] std::optional<std::pair<int, int>> disconnected(int devices) const;

    [[nodiscard]] std::span<const Arc> arcs() const { return arcs_; }

private:
    struct Tree {
        std::once_flag once;
        std::vector<std::int32_t> arc;  ///< per vertex; -1: none
    };

    [[nodiscard]] const std::vector<std::int32_t>& tree(int destination) const;
    [[nodiscard]] std::vector<std::int32_t> tree_to(int destination) const;
    /// Vertices that there is a way to, or with `backwards` one from.
    [[nodiscard]] std::vector<bool> connected_to(int source, bool backwards) const;

    int vertices_;
    std::vector<Arc> arcs_;
    std::vector<Time> weights_;                         ///< per arc
    std::vector<Time> latencies_;                       ///< per arc
    std::vector<std::vector<std::int32_t>> arcs_into_;  ///< per vertex
    std::unique_ptr<Tree[]> trees_;                     ///< per destination
};

}  // namespace partita::cost
