// SPDX-License-Identifier: Apache-2.0
//
// Which episodes of a batch are drawn how.
//
// Some episodes have a whim: weights of features, and likings for blocks and for ways to iterate,
// of their own. They are drawn once and kept through all decisions, so that what they try hangs
// together (every op split alike, one device avoided, ...). They are no sample of the policy; what
// comes of them is imitated if it is good.
//
// Source: parameter noise for exploration, Plappert et al. 2018.
#pragma once

#include <cstdint>

namespace partita::rl {

struct Draws {
    std::int64_t count = 0;   ///< of all
    std::int64_t greedy = 0;  ///< the first ones: what is most probable
    std::int64_t whims = 0;   ///< the last ones; those before them are drawn from the policy alone
    double deviation = 0;     ///< standard deviation of a whim's weights
};

}  // namespace partita::rl
