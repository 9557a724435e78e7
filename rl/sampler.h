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
#include "rl/draws.h"
#include "rl/episodes.h"
#include "rl/option_prices.h"
#include "rl/policy_net.h"
#include "rl/walk.h"
#include "search/random.h"

namespace partita::rl {

struct Batch {
    Episodes episodes;
    std::vector<Choices> choices;  ///< per episode
    std::int64_t own = 0;          ///< the first so many episodes are samples of the policy
};

class Sampler {
public:
    /// Both must outlive it.
    Sampler(ActionSpace& space, OptionPrices& prices) : space_(space), prices_(prices) {}

    Batch sample(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                 search::Random& random);

    /// The episodes in which these choices are made, without groups.
    Batch replay(std::span<const Choices> choices);

private:
    /// Numbers of the blocks of a step's places, [count, places].
    [[nodiscard]] torch::Tensor blocks_at(const Episodes& episodes, std::int64_t step) const;

    void assign(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                search::Random& random, Batch& batch);
    [[nodiscard]] std::int64_t lead(const Episodes& episodes, std::int64_t step,
                                    std::int64_t e) const;
    void look(Episodes& episodes, std::int64_t step);
    /// The place of each episode is chosen: its options.
    void look_closer(Episodes& episodes, std::int64_t step);
    void take(Episodes& episodes, std::int64_t step, std::vector<Choices>& choices);
    static void take(Walk& walk, std::size_t decision, std::int32_t option, Choices& choices);
    void follow(Walk& walk, std::size_t lead, std::size_t member, Choices& choices);
    void start(const Episodes& episodes);
    /// Puts what is not drawn anew in the place of what was drawn.
    void revise(const Draws& draws, Episodes& episodes, std::int64_t step, bool kinds);

    ActionSpace& space_;
    OptionPrices& prices_;
    std::vector<Walk> walks_;
};

}  // namespace partita::rl
