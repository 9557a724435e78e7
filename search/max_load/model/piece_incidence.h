// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/csr.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

/// The nets of each vertex.
struct PieceIncidence {
    struct Pin {
        std::int32_t net = 0;
        bool is_source = false;
    };
    Csr<Pin> pins;
    std::vector<std::int64_t> cost;   ///< of each net
    std::vector<std::int32_t> count;  ///< its pins
};

PieceIncidence make_incidence(const PieceGraph& graph);

}  // namespace partita::search
