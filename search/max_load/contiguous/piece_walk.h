// SPDX-License-Identifier: Apache-2.0
//
// The ideals below one, each once, with the load of what lies between: the inner loop of
// PieceTable.
// Threads: one walk belongs to one thread; what it reads is shared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "search/max_load/contiguous/piece_lattice.h"
#include "search/max_load/model/piece_devices.h"
#include "search/max_load/model/piece_graph.h"
#include "search/max_load/model/piece_incidence.h"

namespace partita::search {

class PieceWalk {
public:
    PieceWalk(const PieceGraph& graph, const PieceDevices& devices, const PieceLattice& lattice,
              const PieceIncidence& incidence);

    /// Calls visit(below, loads) for each ideal below `top` to which a piece from there may cost a
    /// device at most `limit` with more vertices, loads per kind, kNever where it does not fit;
    /// until it returns false. Returns the number of calls.
    template <class Visit>
    std::int64_t below(std::size_t top, std::int64_t limit, Visit visit) {
        start(top);
        std::int64_t calls = 0;
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            if (frame.step == frame.end) {
                leave();
                continue;
            }
            const PieceLattice::Step step = *frame.step++;
            enter(step);
            if (!find_loads(limit)) {
                leave();
                continue;
            }
            ++calls;
            if (!visit(static_cast<std::size_t>(step.ideal), loads_.data())) break;
        }
        while (!frames_.empty()) leave();
        return calls;
    }

private:
    struct Frame {
        const PieceLattice::Step* step = nullptr;
        const PieceLattice::Step* end = nullptr;
        std::int32_t vertex = -1;  ///< taken away last; -1: none yet
        std::int64_t bytes = 0;
    };

    void start(std::size_t top);
    void enter(const PieceLattice::Step& step);
    void leave();
    void take(std::int32_t vertex);
    void give_back(std::int32_t vertex);
    bool find_loads(std::int64_t limit);

    const PieceGraph& graph_;
    const PieceDevices& devices_;
    const PieceLattice& lattice_;
    const PieceIncidence& incidence_;
    std::vector<char> open_;            ///< per net: a pin lies outside the top
    std::vector<std::int32_t> taken_;   ///< pins that were taken away, per net
    std::vector<char> home_taken_;      ///< per net
    std::vector<std::int32_t> inside_;  ///< pins in the top, per net
    std::vector<Frame> frames_;
    std::vector<std::int64_t> times_;  ///< per frame and kind
    std::vector<std::int64_t> loads_;  ///< per kind
    std::int64_t sent_ = 0;
    std::int64_t received_ = 0;
    std::int64_t fixed_ = 0;  ///< of nets that stay cut whatever else is taken away
};

}  // namespace partita::search
