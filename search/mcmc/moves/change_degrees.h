// SPDX-License-Identifier: Apache-2.0
//
// Change degrees: an op gets other degrees for the same devices, alone or with the computing ops of
// its group, which then follow it. Ops on one device have no other degrees.
//
// Ratio: new degrees are drawn whatever the old ones are, so q(back) / q(there) is the probability
// of the old ones by that of the new ones.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> change_degrees(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
