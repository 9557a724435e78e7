// SPDX-License-Identifier: Apache-2.0
//
// Change sharding: another way to keep a parameter and to update it (parameter_sharding.h), for one
// parameter, for those at the same place of all repetitions, or for all. Training only.
//
// Ratio: 0. The way is drawn evenly, whatever the present one is.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> change_sharding(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
