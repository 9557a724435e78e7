// SPDX-License-Identifier: Apache-2.0
//
// Change recompute: a layer block, those on the same devices, or all recompute something else, or
// nothing (recompute_regions.h). Only where the search may choose.
//
// Ratio: 0. The choice is drawn evenly, whatever the present one is.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

/// Is there anything to choose?
bool may_choose_recompute(const plan::Problem& problem);

std::optional<double> change_recompute(SearchSpace& space, Random& random,
                                       ProposalBuilder& builder);

}  // namespace partita::search
