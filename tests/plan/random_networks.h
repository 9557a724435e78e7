// SPDX-License-Identifier: Apache-2.0
//
// Random networks of real ops with uneven extents, and random legal splits of everything: what
// property tests of layouts run over. Reproducible from a seed.
#pragma once

#include "graph/op_graph.h"
#include "plan/problem.h"
#include "plan/strategy.h"
#include "search/random.h"

namespace partita::plan {

/// From 0 to below - 1.
int draw(search::Random& random, int below);

/// `layers` ops on tensors [5 6] whose rows are the batch: products, pointwise ops, Concat, Split,
/// Conv and reductions, with weights of their own.
graph::OpGraph random_uneven_network(search::Random& random, int layers);

/// Every op, and every other update, split at random over random devices.
Strategy random_strategy(search::Random& random, const Problem& problem, int micro_batches);

}  // namespace partita::plan
