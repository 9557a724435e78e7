// SPDX-License-Identifier: Apache-2.0
//
// Change micro-batches: twice or half as many, up to Constraints::most_micro_batches; or another
// schedule (none, gpipe, 1f1b) for them. Nothing to do where both are the user's choice.
//
// Ratio: 0. Twice and half, and all schedules, are drawn evenly; a draw beyond an end does nothing.
#pragma once

#include <optional>

#include "search/draft.h"
#include "search/random.h"
#include "search/search_space.h"

namespace partita::search {

std::optional<double> change_micro_batches(SearchSpace& space, Random& random, Draft& draft);

}  // namespace partita::search
