// SPDX-License-Identifier: Apache-2.0
//
// A part of a load problem (load_graph.h): what lies on a few devices may move among these,
// everything else stays.
//
//     whole    a: 1 2 3    b: 4 5    c: 6 7    d: 8          part {a, c}    a: 1 2 3    c: 6 7    elsewhere: x
//
// All that stays is one vertex x on one more device, which pays nothing and which nothing else may
// use. A net with an end that stays has one on x, so whoever holds another end of it pays, wherever
// that moves. Loads of the part's devices are those of the whole problem, therefore, whatever moves
// within the part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "search/max_load/model/load_graph.h"

namespace partita::search {

struct LoadPart {
    LoadProblem problem;  ///< its last vertex is x, its last device the one elsewhere
    std::vector<std::int32_t>
        vertices;                      ///< of the whole problem, in order of the part's, without x
    std::vector<std::size_t> devices;  ///< of the whole problem, in order of the part's
};

/// What lies on these devices, rising, of an assignment `device_of` of the whole problem.
LoadPart make_load_part(const LoadProblem& whole, std::span<const std::int32_t> device_of,
                        std::span<const std::size_t> devices);

}  // namespace partita::search
