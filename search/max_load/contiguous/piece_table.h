// SPDX-License-Identifier: Apache-2.0
//
// The best plan of contiguous pieces over a lattice of ideals, at most one piece per device:
//
//     best[J][s] = min over ideals I in J and kinds k of  max(best[I][s - one device of k], load_k(J \ I))
//
// s counts the devices used (search/max_load/model/piece_devices.h). Ideals are treated level by
// level; those of a level are independent of each other, so threads share them and the result is
// the same with any number. For each J the ideals below are walked depth first, taking one vertex
// away at a time and never one of a higher number than the last, which meets each of them once; the
// load of what was taken away is kept along:
//
//     J ──7──▶ ──4──▶ I = J \ {7 4}: load({7 4}) from load({7}) by the pins of 4
//
// Nothing is kept per pair of ideals. A walk turns back where time and nets that reach outside J,
// which only grow, are above the limit on every kind. An ideal is left out where the devices that
// are used, or those that are left, could not do its work, or the rest, within the limit.
//
// Optimal: among plans whose pieces are differences of these ideals, and at most `limit`.
// Memory: (states + 1) * 8 bytes per ideal, and the lattice.
// Source: Tarnawski et al., NeurIPS 2020, section 4. Differs: loads along the walk instead of per
// pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "search/max_load/contiguous/piece_lattice.h"
#include "search/max_load/contiguous/piece_walk.h"
#include "search/max_load/model/piece_devices.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

class PieceTable {
public:
    /// Calls work(0) to work(size - 1), on several threads or not.
    using Parallel =
        std::function<void(std::size_t size, const std::function<void(std::size_t)>& work)>;

    /// Plans of at most `limit` < kNever. Graph and devices must outlive it.
    PieceTable(const PieceGraph& graph, const PieceDevices& devices, PieceLattice lattice,
               std::int64_t limit);
    ~PieceTable();

    /// Whole levels, until at least `pairs` pairs of ideals were looked at; true: done.
    bool advance(std::int64_t pairs, const Parallel& parallel);

    /// When done: the largest load of the best plan; kNever: there is none of at most the limit.
    [[nodiscard]] std::int64_t value() const;
    /// When done, with a plan: the device of each vertex.
    [[nodiscard]] std::vector<int> devices_of_vertices();
    /// Pairs of ideals that were looked at.
    [[nodiscard]] std::int64_t pairs() const { return pairs_; }
    [[nodiscard]] std::size_t ideals() const { return lattice_.size(); }

private:
    struct Piece {
        std::size_t below = 0;
        std::size_t kind = 0;
    };

    std::int64_t* row(std::size_t ideal) { return best_.data() + ideal * devices_.states; }
    void find_speeds();
    void weigh_ideals();
    [[nodiscard]] bool is_useful(std::size_t ideal) const;
    std::int64_t fill(std::size_t ideal, PieceWalk& walk);
    void close(std::size_t ideal);
    [[nodiscard]] Piece last_piece(std::size_t ideal, std::size_t state);
    [[nodiscard]] std::size_t fewest_used(std::size_t ideal, std::size_t state);

    const PieceGraph& graph_;
    const PieceDevices& devices_;
    PieceLattice lattice_;
    PieceIncidence incidence_;
    std::int64_t limit_;
    std::int64_t whole_ = 0;  ///< of all vertices, each on its best kind; kNever: one has none
    std::vector<std::int64_t> weight_;  ///< the same per ideal
    std::vector<double> used_speed_;    ///< per state: weight that its devices do in a unit of time
    std::vector<double> left_speed_;
    std::vector<std::int64_t> best_;  ///< per ideal and state
    std::vector<std::unique_ptr<PieceWalk>> walks_;
    std::size_t level_ = 1;
    std::int64_t pairs_ = 0;
};

}  // namespace partita::search
