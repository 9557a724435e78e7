// SPDX-License-Identifier: Apache-2.0
//
// The quick searchers of the table (in_auto), with which `auto`, `mcmc` and `local-search` start.
// Three stages (staged_search.h):
//
//     1   single-device ─▶ data-parallel ─▶ expert ─▶ data-parallel ─▶ expert ─▶ ...
//         last, for throughput alone: contiguous, where the graph has not too many ideals
//     2   elimination, where ops may be split, for other objectives and budgets of 200 evaluations or fewer
//     3   critical-path ─▶ multi-objective ─▶ ...      only while less than `share` is spent
//
// Elimination knows no pipelines, and expert looks for them only as far as they may beat the best
// plan: so it comes after. Where one evaluation is expensive, the first stage may take all of the
// budget: its dozen of proposals is worth more than as many random moves. The second is left out
// then, too. The third places whole ops, and rarely wins in training.
//
// Random: none; the same proposals in the same order, whatever the seed.
#pragma once

#include <vector>

#include "search/portfolio/staged_search.h"

namespace partita::search {

/// `share` of the engine's budget, in [0, 1]; without a budget they all have their turn.
std::vector<Stage> quick_stages(double share);

}  // namespace partita::search
