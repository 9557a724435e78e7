// SPDX-License-Identifier: Apache-2.0
//
// Draws placements from a policy, a batch in lock-step: one call of the network serves a decision
// of all of them, and between two calls every walk is told what it chose.
//
//     step d    walk 0 ─ features ─┐              ┌─ choice ─▶ walk 0
//               walk 1 ─ features ─┼─▶ network ─▶─┼─ choice ─▶ walk 1
//               ...
//
// Draws come from the caller's generator, in order of step and episode, so a seed gives the same
// placements on every host whose arithmetic rounds alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rl/draws.h"
#include "rl/policy_net.h"
#include "rl/walks.h"
#include "rl/whims.h"
#include "search/support/random.h"

namespace partita::rl {

class Sampler {
public:
    /// Both must outlive it.
    Sampler(ActionSpace& space, OptionPrices& prices) : space_(space), walks_(space, prices) {}

    Batch sample(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                 search::Random& random);

    /// The episodes in which these choices are made, without groups.
    Batch replay(std::span<const Choices> choices) { return walks_.replay(choices); }

private:
    static void assign_groups(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                              search::Random& random, Episodes& episodes);
    static void draw_iterations(const torch::Tensor& log, const Draws& draws,
                                search::Random& random, Batch& batch);
    void draw_places(PolicyNet& net, const torch::Tensor& z, const Whims& whims, const Draws& draws,
                     search::Random& random, Episodes& episodes, std::int64_t step);
    void draw_kinds(PolicyNet& net, const torch::Tensor& z, const Whims& whims, const Draws& draws,
                    search::Random& random, Episodes& episodes, std::int64_t step);

    ActionSpace& space_;
    Walks walks_;
};

}  // namespace partita::rl
