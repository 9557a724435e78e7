// SPDX-License-Identifier: Apache-2.0
//
// Draws placements from a policy, a batch in lock-step: one call of the network serves a decision of all of them,
// and between two calls every walk is told what it chose.
//
//     step d    walk 0 ─ features ─┐              ┌─ choice ─▶ walk 0
//               walk 1 ─ features ─┼─▶ network ─▶─┼─ choice ─▶ walk 1
//               ...
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
    std::int64_t own = 0;          ///< the first so many episodes are samples of the policy
};

/// An episode that makes these choices where nothing is to be drawn anew.
struct Revision {
    Choices choices;
    std::vector<char> anew;  ///< per step
};

/// Which episodes of a batch are drawn how.
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

class Sampler {
public:
    /// Both must outlive it.
    Sampler(ActionSpace& space, OptionPrices& prices) : space_(space), prices_(prices) {}

    Batch sample(PolicyNet& net, const GraphTensors& graph, const Draws& draws,
                 search::Random& random);

    /// The episodes in which these choices are made, without groups.
    Batch replay(std::span<const Choices> choices);

private:
    /// Per episode a weight for each feature, and for each block; 0 where there is no whim.
    struct Whims {
        torch::Tensor block_weights;  ///< [count, kBlockFeatures]
        torch::Tensor kind_weights;   ///< [count, kKindFeatures]
        torch::Tensor likings;        ///< [count, blocks]
    };
    [[nodiscard]] Whims draw_whims(const Draws& draws, search::Random& random) const;
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
