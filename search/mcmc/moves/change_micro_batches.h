// SPDX-License-Identifier: Apache-2.0
//
// Change micro-batches: the next or the previous of BatchChoices::micro_batch_choices(); or another
// schedule (none, gpipe, 1f1b, eager-1f1b) for several. Nothing to do where both are the user's
// choice.
//
// Ratio: 0. More and fewer, and all schedules, are drawn evenly; a draw beyond an end does nothing.
// The step from one micro-batch to two is drawn less often than the step back, which the ratio
// leaves out.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> change_micro_batches(SearchSpace& space, Random& random,
                                           ProposalBuilder& builder);

}  // namespace partita::search
