// SPDX-License-Identifier: Apache-2.0
//
// Propagation: the config of a neighbour under which the tensor between the two needs no reshard.
//
//     MatMul (m 2)(n 4) on 0..7 ── y[m n] ──▶ Relu (d0 2)(d1 4) on 0..7
//     MatMul (m 2)(k 4)         ── y[m n] ──▶ Relu (d0 2)(*  4)       partial sums: added, repeated
//     parameter w[k n] (* 2)(d1 4)    ──▶     MatMul (m 2)(n 4)
//
// Axis by axis: a factor becomes that factor of the neighbour's rule which cuts the same dim in the
// same way, in blocks where others are major to it (axis.h: "n/3"); everything else is repeated.
// Where that is illegal, all of it is repeated, and where even that is, the op is whole on the
// first device that it may use.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// A tensor between its producer and one of its readers.
struct Link {
    graph::OpId producer;
    std::size_t result = 0;
    graph::OpId reader;
    std::size_t operand = 0;
};

/// All links of an op: its operands in order, then the readers of its results.
std::vector<Link> links_of(const plan::Problem& problem, graph::OpId op);

/// The axes of the other end of the link when `from`, one of the two, has these; legal or not.
std::vector<plan::Axis> propagated_axes(const plan::Problem& problem, const Link& link,
                                        graph::OpId from, const std::vector<plan::Axis>& axes);

/// The config of the other end of the link when `from`, one of the two, has `config`. Legal.
plan::OpConfig propagate(const plan::Problem& problem, const Link& link, graph::OpId from,
                         const plan::OpConfig& config, int micro_batches);

}  // namespace partita::search
