// SPDX-License-Identifier: Apache-2.0
//
// All-reduces whose algorithm a plan names, from nothing but exchanges between two ranks. n ranks,
// d bytes; what the busiest rank sends, and how often it waits for another:
//
//     algorithm           amount            rounds
//     ring                2 (n-1) d/n       2 (n-1)
//     tree                2 d log2 n        2 log2 n     binomial: reduce to rank 0, then broadcast
//     butterfly           d log2 n          log2 n       recursive doubling
//     halving-doubling    2 (n-1) d/n       2 log2 n     reduce-scatter and all-gather by halves
//     any other           the communicator's own all_reduce()
//
// d counts elements in the type of accumulation (combine.h): half floats travel as float32, and are
// rounded once at the end. When n is no power of two: log2 is rounded up in a tree; the two
// butterflies first fold the ranks beyond the highest power into the others, which costs 2 d and 2
// rounds. Parts that do not divide are rounded up.
//
// All ranks get the same bits. They depend on the algorithm: floats add in another order.
//
// Fails as Communicator does; its time-out is then one round's. Threads: as the communicator.
// Source: Patarasuk, Yuan, JPDC 69(2), 2009 (ring); Thakur, Rabenseifner, Gropp, IJHPCA 19(1),
// 2005.
#pragma once

#include <span>

#include "cost/collectives/collective.h"
#include "runtime/communicate/communicator.h"

namespace partita::runtime {

struct AllReduceRow {
    cost::Algorithm algorithm;
    /// `sum`: flat, in the type of accumulation; in place. At least two ranks.
    void (*run)(Communicator& communicator, const at::Tensor& sum, graph::Combine how);
};

/// The algorithms that are written out here.
std::span<const AllReduceRow> all_reduce_algorithms();

void all_reduce(Communicator& communicator, const at::Tensor& tensor, graph::Combine how,
                cost::Algorithm algorithm);
/// The same as a new tensor.
at::Tensor all_reduced(Communicator& communicator, const at::Tensor& tensor, graph::Combine how,
                       cost::Algorithm algorithm);

}  // namespace partita::runtime
