// SPDX-License-Identifier: Apache-2.0
//
// Change repeats: one of the moves change-degrees, change-devices and copy-config, and the same in
// all repetitions of the block (repeated_blocks.h). Deep networks need it: a change of one layer of
// many is mostly loss, because its neighbours still lie in the old way. Nothing to do where nothing
// repeats.
//
// Ratio: that of the move inside; repetitions that had been alike go back together.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> change_repeats(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
