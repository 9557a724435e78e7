// SPDX-License-Identifier: Apache-2.0
//
// Weights that an episode has for itself (draws.h): they are added to the logits of its steps.
#pragma once

#include <cstddef>

#include <torch/types.h>

#include "rl/action_space.h"
#include "rl/draws.h"
#include "search/support/random.h"

namespace partita::rl {

/// Zero for episodes without a whim; nothing where no episode has one.
struct Whims {
    torch::Tensor block_weights;  ///< [count, kBlockFeatures]
    torch::Tensor kind_weights;   ///< [count, kKindFeatures]
    torch::Tensor likings;        ///< [count, blocks]
    torch::Tensor iterations;     ///< [count, iterations]

    [[nodiscard]] bool any() const { return likings.defined(); }
    /// `rows` [count, places, kBlockFeatures], `blocks`: their numbers, [count, places] -> [count,
    /// places].
    [[nodiscard]] torch::Tensor of_blocks(const torch::Tensor& rows,
                                          const torch::Tensor& blocks) const;
    /// `rows` [count, kinds, kKindFeatures] -> [count, kinds].
    [[nodiscard]] torch::Tensor of_kinds(const torch::Tensor& rows) const;
};

Whims draw_whims(const Draws& draws, const ActionSpace& space, search::Random& random);

}  // namespace partita::rl
