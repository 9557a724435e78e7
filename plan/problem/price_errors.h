// SPDX-License-Identifier: Apache-2.0
//
// How far fitted prices may be off: every curve of a kernel table says its mean error on measured rows
// that it was not fitted to (data/kernels).
//
//     e = sum of t e over all work that curves price / sum of t over that work
//
// t is what a curve says of a whole op, e the curve's error: as if all curves erred the same way.
// Errors of kernels partly cancel; what a whole step is off, though, is also what no kernel explains
// (the host, kernels that an engine does not run), so the plain sum is the nearer guess
// (docs/accuracy.md holds it against measured steps).
#pragma once

#include <vector>

#include "plan/problem/graph_facts.h"
#include "plan/problem/prices.h"

namespace partita::plan {

struct PriceErrors {
    double fitted = 0.0;  ///< share of the time of all ops, whole, that curves say; 0: of none
    double error = 0.0;   ///< e, 0.1 for 10 %
};

/// `device`: per op. Of forward, backward and update.
PriceErrors price_errors(const GraphFacts& facts, const Prices& prices,
                         const std::vector<int>& device);

}  // namespace partita::plan
