// SPDX-License-Identifier: Apache-2.0
//
// Which devices are left for the pieces to come. Devices that price alike, hold as much and are
// allowed to the same groups are of one kind, and of a kind only their number matters. A state says
// how many of each kind are used:
//
//     4 accelerators and 1 CPU: 5 * 2 states; a piece on an accelerator leads from (a, c) to (a + 1, c)
//
// Where that would make too many states (each device fixed to something else), devices take their
// turn: a state is the number of devices that had theirs, each with one piece or none. Then not all
// plans are considered (in_turn).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "search/coarsening/group_graph.h"

namespace partita::search {

struct PieceKind {
    std::vector<int> devices;         ///< rising
    Bytes capacity;                   ///< of each; Bytes::max() where none is counted
    bool communicates = true;         ///< false: pays no communication
    std::size_t stride = 0;           ///< one more device of the kind is used: state + stride
    std::vector<std::uint32_t> from;  ///< states that leave one, rising
};

struct PieceDevices {
    std::vector<PieceKind> kinds;
    std::size_t states = 1;  ///< 0: nothing is used; states - 1: everything
    bool in_turn = false;

    /// Devices of a kind that a state has used.
    [[nodiscard]] std::size_t used(std::size_t kind, std::size_t state) const;
    /// Of all states and kinds together.
    [[nodiscard]] std::size_t transitions() const;
};

/// Costs given by a workload file: memory and communication concern accelerators only.
PieceDevices make_piece_devices(const GroupGraph& groups);

}  // namespace partita::search
