// SPDX-License-Identifier: Apache-2.0
//
// Copy a config along a path: from an op on, forward or backward through the data, each op on the way
// takes over the config of the one before (follow.h), so that nothing is resharded between them. The
// path goes on with probability 3/4; at forks the way is drawn.
//
// Ratio: 0, though no single draw may restore what the ops on the way had. The chain still leaves
// such states, one op at a time, through the other moves.
// Source: the propagation of the released FlexFlow (REFERENCES.md 6.5).
#pragma once

#include <optional>

#include "search/draft.h"
#include "search/random.h"
#include "search/search_space.h"

namespace partita::search {

std::optional<double> copy_config(SearchSpace& space, Random& random, Draft& draft);

}  // namespace partita::search
