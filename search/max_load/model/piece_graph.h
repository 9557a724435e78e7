// SPDX-License-Identifier: Apache-2.0
//
// Piece graph: what a plan of contiguous pieces sees of a problem. A piece is a set of vertices;
// what it costs its device follows from the set alone, wherever the rest goes:
//
//     load(piece) = time on the device + cost of every net that the piece cuts      (accelerator)
//     load(piece) = time on the device                                              (CPU)
//
// A net is a result with the vertex that makes it (source) and those that read it. A piece cuts it
// when it holds some of these and not all: it then either sends the result, once, or receives it,
// once. That is the throughput objective of REFERENCES 8, backward nodes included.
//
//     source ─▶ other    {source} cuts it: sends
//                        {source other} does not cut it
//                        {other} cuts it: receives
//
// Vertices are groups (search/coarsening/op_groups.h), merged where precedence between forward ops
// goes in circles. A backward op goes where its group goes; precedence looks at forward ops only. A
// group of backward ops alone takes its place from the mirrored backward edges. Edges rise:
// vertices are in topological order.
//
// The order does not depend on how ops are numbered: it is by depth and then by what a vertex and
// its neighbourhood cost; numbers decide only between vertices that look alike from everywhere.
//
// Costs without a workload file are estimates: mean copies, a device computes, sends and receives
// at the same time (overlap), and occupies what GroupGraph::bytes() says.
// Source: Tarnawski et al., NeurIPS 2020; REFERENCES.md 8. Differs: vertices are merged
// only where that provably loses nothing (see the source).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/units.h"
#include "search/coarsening/group_graph.h"
#include "search/max_load/model/piece_devices.h"

namespace partita::search {

/// More than any load: a vertex on a device that it may not use.
inline constexpr std::int64_t kNever = std::int64_t{1} << 61U;

/// One or more results with the same readers.
struct PieceNet {
    std::int32_t source = 0;
    std::vector<std::int32_t> others;  ///< rising, without source, not empty
    std::int64_t cost = 0;             ///< picoseconds, > 0
};

struct PieceGraph {
    std::size_t size = 0;
    std::size_t kinds = 0;                                     ///< PieceDevices::kinds
    std::vector<std::int32_t> of;                              ///< vertex of each group
    std::vector<std::int64_t> times;                           ///< per vertex and kind; kNever
    std::vector<std::int64_t> bytes;                           ///< per vertex
    std::vector<std::pair<std::int32_t, std::int32_t>> edges;  ///< rising, distinct
    std::vector<PieceNet> nets;
    bool overlap = false;  ///< load = max(time, sent, received) instead of their sum

    [[nodiscard]] std::int64_t time(std::size_t vertex, std::size_t kind) const {
        return times[vertex * kinds + kind];
    }
};

/// Which groups become one vertex: those on a circle of precedence, which only contiguous plans
/// must keep together, or only what takes no time and loses nothing in any plan.
enum class PieceMerging : std::uint8_t { circles_and_free, free_only };

/// Throws OverflowError when the loads of a piece might leave the range of Time. With circles left
/// (free_only) vertices are in the order of groups.
PieceGraph make_piece_graph(const GroupGraph& groups, const PieceDevices& devices,
                            PieceMerging merging = PieceMerging::circles_and_free);

/// `to`: the new vertex of each vertex, of `size`. Nets that lie within one vertex disappear.
PieceGraph contract(const PieceGraph& graph, const std::vector<std::int32_t>& to, std::size_t size);

}  // namespace partita::search
