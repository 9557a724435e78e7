// SPDX-License-Identifier: Apache-2.0
//
// Which episodes of a batch are drawn how.
//
// Some episodes have a whim: weights of features and a liking for blocks of their own, drawn once and kept through all
// decisions, so that what they try hangs together (every op split alike, one device avoided, ...). They are no sample of
// the policy; what comes of them is imitated if it is good.
//
// Others revise: they make the choices of a good placement but for a part of the decisions, a window or those of one
// type of op, which are drawn anew. They are no sample of the policy either.
//
// Sources: parameter noise for exploration, Plappert et al. 2018; large neighbourhood search with a learned repair,
// Hottung and Tierney 2020.
#pragma once

#include <cstdint>
#include <vector>

#include "rl/action_space.h"

namespace partita::rl {

using Choices = ActionSpace::Choices;

/// An episode that makes these choices where nothing is to be drawn anew.
struct Revision {
    Choices choices;
    std::vector<char> anew;  ///< per step
};

struct Draws {
    std::int64_t count = 0;           ///< of all
    std::int64_t greedy = 0;          ///< the first ones: what is most probable
    std::vector<Revision> revisions;  ///< of the last episodes
    /// Episodes [first_whim, end_whim), which end where revisions begin or among these.
    std::int64_t first_whim = 0;
    std::int64_t end_whim = 0;
    double whim = 0;  ///< standard deviation of their weights

    /// The first so many episodes are drawn from the policy alone.
    [[nodiscard]] std::int64_t own() const {
        const std::int64_t before = count - static_cast<std::int64_t>(revisions.size());
        return end_whim > first_whim && first_whim < before ? first_whim : before;
    }
};

}  // namespace partita::rl
