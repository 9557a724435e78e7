// SPDX-License-Identifier: Apache-2.0
//
// Draws placements from a policy, a batch in lock-step: one call of the network serves a decision of all of them,
// and between two calls every walk is told what it chose.
//
//     step d    walk 0 ─ features ─┐              ┌─ choice ─▶ walk 0
//               walk 1 ─ features ─┼─▶ network ─▶─┼─ choice ─▶ walk 1
//               ...
//
// Draws come from the caller's generator, in order of step and episode, so a seed gives the same placements on every
// host whose arithmetic rounds alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rl/action_space.h"
#include "rl/episodes.h"
#include "rl/option_prices.h"
#include "rl/policy_net.h"
#include "rl/walk.h"
#include "search/random.h"

namespace partita::rl {

using Choices = ActionSpace::Choices;

struct Batch {
    Episodes episodes;
    std::vector<Choices> choices;  ///< per episode
};

class Sampler {
public:
    /// Both must outlive it.
    Sampler(ActionSpace& space, OptionPrices& prices) : space_(space), prices_(prices) {}

    /// The first `greedy` episodes take what is most probable.
    Batch sample(PolicyNet& net, const GraphTensors& graph, std::int64_t count,
                 std::int64_t greedy, search::Random& random);

    /// The episodes in which these choices are made.
    Batch replay(std::span<const Choices> choices);

private:
    void look(Episodes& episodes, std::int64_t step);
    /// The place of each episode is chosen: its options.
    void look_closer(Episodes& episodes, std::int64_t step);
    void take(Episodes& episodes, std::int64_t step, std::vector<Choices>& choices);
    void start(const Episodes& episodes);

    ActionSpace& space_;
    OptionPrices& prices_;
    std::vector<Walk> walks_;
};

}  // namespace partita::rl
