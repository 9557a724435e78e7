// SPDX-License-Identifier: Apache-2.0
//
// Shift a border: where the data passes from one device set to another of equal size, ops behind
// the border go to the set in front of it, or the other way round; degrees stay. In a pipeline this
// moves layers from stage to stage.
//
//     devices   A A A│B B B B        A A A A A│B B        ops in order; others in between stay
//
// The number of ops is drawn as 1, 2, 4, ... up to a fourth of all.
//
// Ratio: 0. A border moves back by as much as easily, but for where it meets another one.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> shift_border(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
