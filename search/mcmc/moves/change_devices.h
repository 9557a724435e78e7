// SPDX-License-Identifier: Apache-2.0
//
// Change devices: an op, alone or with its group, goes onto another device set from the table. With
// as many devices its degrees stay (and the group moves as it is, where it lay with it); with
// another number new ones are drawn, and the group follows.
//
// Ratio: number and set of devices are drawn evenly, whatever the old ones are:
//     q(there) = 1 / numbers / sets of that number * q(degrees), or without the last for as many.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> change_devices(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
