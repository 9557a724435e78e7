// SPDX-License-Identifier: Apache-2.0
//
// Load graph: what the throughput objective of given costs (plan/evaluation/max_load.h) sees of a
// problem when any vertex may go to any device. A result is a net over the vertices that make or
// read it:
//
//     load(d) = time of d's vertices on it + cost of every net with pins on d and elsewhere   (accelerator)
//     load(d) = time of d's vertices on it                                                   (CPU)
//
// It does not matter which pin makes the result: sender and receivers each pay once. So the problem
// is hypergraph partitioning where the largest sum of weight and cut counts.
//
// Vertices are groups (search/coarsening/op_groups.h), without precedence; those that take no time
// join a neighbour where that provably loses nothing (search/max_load/model/piece_graph.cpp).
// Threads: immutable once built.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/csr.h"
#include "search/coarsening/group_graph.h"

namespace partita::search {

struct LoadGraph {
    std::size_t size = 0;
    std::size_t kinds = 0;            ///< of devices
    std::vector<std::int64_t> times;  ///< per vertex and kind, picoseconds; kNever: not allowed
    std::vector<std::int64_t> bytes;  ///< per vertex
    Csr<std::int32_t> pins;  ///< vertices of each net, rising, at least two; no two nets alike
    std::vector<std::int64_t> costs;  ///< per net, picoseconds, > 0
    Csr<std::int32_t> nets;           ///< of each vertex

    [[nodiscard]] std::size_t net_count() const { return costs.size(); }
    [[nodiscard]] std::int64_t time(std::size_t vertex, std::size_t kind) const {
        return times[vertex * kinds + kind];
    }
};

struct LoadDevice {
    std::size_t kind = 0;  ///< devices of a kind price alike and are allowed to the same groups
    std::int64_t capacity = 0;  ///< bytes; the largest number where none is counted
    bool communicates = true;   ///< false: pays no communication
};

struct LoadProblem {
    LoadGraph graph;
    std::vector<LoadDevice> devices;
    std::vector<std::int32_t> of;  ///< vertex of each group
};

/// A net on its way into a graph.
struct LoadNet {
    std::vector<std::int32_t> pins;  ///< rising, at least two
    std::int64_t cost = 0;           ///< picoseconds, > 0
    friend auto operator<=>(const LoadNet&, const LoadNet&) = default;
};

/// Pins, costs and nets of a graph that has its vertices already. Nets with the same pins become
/// one.
void set_nets(LoadGraph& graph, std::vector<LoadNet> nets);

/// For given costs. Throws OverflowError when loads might leave the range of Time.
LoadProblem make_load_problem(const GroupGraph& groups);

}  // namespace partita::search
