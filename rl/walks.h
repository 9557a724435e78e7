// SPDX-License-Identifier: Apache-2.0
//
// Walks side by side: all take a step, then all the next. What they see is written to Episodes,
// where who chooses leaves the choice:
//
//     look()         features of every block ─▶ block_rows        place ◀─ chosen
//     look_closer()  features of the options on it ─▶ kind_rows   kind  ◀─ chosen
//     take()         every walk goes on with it
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rl/action_space.h"
#include "rl/episodes.h"
#include "rl/option_prices.h"
#include "rl/walk.h"

namespace partita::rl {

using Choices = ActionSpace::Choices;

struct Batch {
    Episodes episodes;
    std::vector<Choices> choices;  ///< per episode
    std::int64_t own = 0;          ///< the first so many episodes are samples of the policy

    Batch(const ActionSpace& space, std::int64_t count, std::int64_t groups = 0);
};

class Walks {
public:
    /// Both must outlive it.
    Walks(ActionSpace& space, OptionPrices& prices) : space_(space), prices_(prices) {}

    /// How each iteration goes has been chosen.
    void start(const Episodes& episodes);
    void look(Episodes& episodes, std::int64_t step);
    void look_closer(Episodes& episodes, std::int64_t step);
    void take(Batch& batch, std::int64_t step);

    /// The decision whose features stand for the step's; -1: its group is empty.
    [[nodiscard]] std::int64_t lead(const Episodes& episodes, std::int64_t step,
                                    std::int64_t episode) const;
    /// Of the decision looked at last.
    [[nodiscard]] bool is_open_option(std::int64_t episode, std::int32_t option) const {
        return walks_[static_cast<std::size_t>(episode)].is_open_option(
            static_cast<std::size_t>(option));
    }
    /// Numbers of the blocks of a step's places, [count][places]; 0 where there is none.
    [[nodiscard]] std::vector<std::int64_t> blocks(const Episodes& episodes,
                                                   std::int64_t step) const;

    /// The episodes in which these choices are made, without groups.
    Batch replay(std::span<const Choices> choices);

private:
    static void take(Walk& walk, std::size_t decision, std::int32_t option, Choices& choices);
    void follow(Walk& walk, std::size_t lead, std::size_t member, Choices& choices);

    ActionSpace& space_;
    OptionPrices& prices_;
    std::vector<Walk> walks_;
};

}  // namespace partita::rl
