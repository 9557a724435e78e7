// SPDX-License-Identifier: Apache-2.0
//
// What a policy sees of the graph before it decides anything: a row per decision, and which others
// are next to it. As in the papers: type of the op, shape of its result, adjacency; and what it
// costs.
//
// Types are numbered by a hash of their name, so that a type never seen in training has a number as
// well; it shares it with few others.
// Source: Mirhoseini et al. 2017, section 3.2, and 2018, section 3 (six neighbours each way).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rl/action_space.h"
#include "rl/option_prices.h"

namespace partita::rl {

inline constexpr std::int64_t kTypeNumbers = 256;
inline constexpr std::size_t kNeighbours = 6;  ///< each way, the nearest first
inline constexpr std::size_t kGraphFeatures = 16 + 2 * kNeighbours;

struct GraphFeatures {
    std::vector<std::int64_t> types;  ///< per decision, of its lead op
    std::vector<float> rows;          ///< kGraphFeatures each
    /// Per decision kNeighbours producers, then as many readers; the decision itself where there
    /// are fewer.
    std::vector<std::int64_t> neighbours;
    std::vector<float> is_neighbour;  ///< per entry of `neighbours`: 1 where there is one
    std::vector<float> iterations;    ///< kIterationFeatures of each way that an iteration may go
};

GraphFeatures graph_features(const ActionSpace& space, const OptionPrices& prices);

}  // namespace partita::rl
