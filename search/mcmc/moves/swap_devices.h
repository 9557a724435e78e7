// SPDX-License-Identifier: Apache-2.0
//
// Swap devices: two ops or groups on different device sets of equal size exchange them; degrees
// stay.
//
// Ratio: 0. The same two, drawn again, swap back.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> swap_devices(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
