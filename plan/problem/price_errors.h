// SPDX-License-Identifier: Apache-2.0
//
// How far fitted prices may be off: every curve of a kernel table says its mean error on measured rows
// that it was not fitted to (data/kernels).
//
//     e = sum of t e over all work that curves price / sum of t over that work
//
// t is what a curve says of a whole op, e the curve's error: as if all curves erred the same way.
// Errors of kernels partly cancel, and a step is also off by what no kernel explains (the host, kernels
// that an engine does not run): docs/accuracy.md holds the figure against measured steps.
#pragma once

#include "plan/problem/graph_facts.h"
#include "plan/problem/prices.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

struct PriceErrors {
    double fitted = 0.0;  ///< share of the time of all ops, whole, that curves say; 0: of none
    double error = 0.0;   ///< e, 0.1 for 10 %
};

/// Of forward, backward and update, on the first device of each op.
PriceErrors price_errors(const GraphFacts& facts, const Prices& prices, const Strategy& strategy);

}  // namespace partita::plan
