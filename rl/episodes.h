// SPDX-License-Identifier: Apache-2.0
//
// What a policy saw and chose in some walks through the decisions, as arrays that a tensor can be
// laid over. Everything is by step, then by episode. A step is a decision, or a group of decisions
// that share a block and a kind of split: then the one that takes longest leads, its features stand
// for the group's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/tasks/task_graph.h"
#include "rl/walk.h"

namespace partita::rl {

struct Episodes {
    std::int64_t steps = 0;
    std::int64_t count = 0;
    std::int64_t places = 0;  ///< most of any decision
    std::int64_t kinds = 0;   ///< most options on any place

    std::vector<std::int64_t> iteration;  ///< per episode
    std::vector<float> block_rows;        ///< [steps][count][places][kBlockFeatures]
    std::vector<float> block_open;        ///< [steps][count][places]: 1 where it may be chosen
    std::vector<std::int64_t> place;      ///< [steps][count]: chosen
    std::vector<std::int64_t> block;      ///< [steps][count]: its number among all blocks
    std::vector<float> kind_rows;         ///< [steps][count][kinds][kKindFeatures]
    std::vector<float> kind_open;         ///< [steps][count][kinds]
    std::vector<std::int64_t> kind;  ///< [steps][count]: chosen, from the place's first option on

    // With groups only.
    std::vector<std::int64_t> assignment;  ///< [decisions][count]: group of each decision
    std::vector<std::int64_t> order;  ///< [decisions][count]: step at which its group is placed
    std::vector<Csr<std::uint32_t>> members;  ///< per episode: decisions of each step, rising

    /// `groups`: 0, or how many steps there are.
    Episodes(const ActionSpace& space, std::int64_t episodes, std::int64_t groups = 0);

    /// The groups of an episode, placed in order of their mean decision; empty ones at the end.
    void assign(std::int64_t episode, const std::vector<std::int64_t>& groups_of);
    [[nodiscard]] bool has_groups() const { return !members.empty(); }

    /// Row of features of a step and an episode; and of what was chosen.
    float* block_row(std::int64_t step, std::int64_t episode) {
        return block_rows.data() +
               (step * count + episode) * places * static_cast<std::int64_t>(kBlockFeatures);
    }
    float* kind_row(std::int64_t step, std::int64_t episode) {
        return kind_rows.data() +
               (step * count + episode) * kinds * static_cast<std::int64_t>(kKindFeatures);
    }
    /// Copies one episode of another batch of the same space over one of this.
    void copy(std::int64_t episode, const Episodes& from, std::int64_t from_episode);
};

}  // namespace partita::rl
