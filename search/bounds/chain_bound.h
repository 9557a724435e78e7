// SPDX-License-Identifier: Apache-2.0
//
// The part of the lower bound that follows from chains of ops that are split, each in its own way:
// number 8 of search/bounds/lower_bound.h. Three things a plan can have only two of: short chains
// (many parts), little work (few parts, for parts read the same operands and none is shorter than a
// launch), no communication (neighbours alike).
//
//     conv ─▶ bn ─▶ relu ─▶ conv    in 8, 2, 2, 8 parts:    8    2    2    8
//                                                            └─┬─┘    └─┬─┘   what moves: at least 3/4
//
// Chains. Every element of a tensor is given by a part of its producer and read by a part of each
// consumer. If a consumer reads its operand evenly (uniform_reads.h), and positions of op 1 are
// drawn at random, each equally likely, then an element of its result, positions of op 2 that read
// it, and so on, then positions of each op are equally likely, and the parts that hold them are a
// chain of tasks that wait for each other. The mean of the lengths of such chains is a mean of
// lengths of paths, so it is no longer than the plan. In it
//
//     an op       in k parts counts as the least time of one part; on devices of unequal speed as the mean of
//                 its parts, none of which has more than the largest part's share
//     an edge     counts as the least time of a copy or collective, times the share of elements that change
//                 devices: parts of op 1 with shares of at most s on n devices and parts of op 2 with s' on n'
//                 have at most min(n, n') min(s, s') in common. Parts may be replicas: n >= k
//
// The bound. For any weight w in [0, 1], w x (mean length) + (1 - w) x (work of all devices) is no
// more than the plan takes; the least of it over numbers of parts and replicas of all ops of the
// chain is found by dynamic programming along it, the other ops count with the least work. By weak
// duality any chain and any w will do: the longest chain is taken (longest_chain.h), and w
// searched.
//
// Sound for any split, replicas and partial results included, any devices and any schedule. Where
// copies are measured, what moves counts as nothing.
#pragma once

#include "base/units.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"
#include "search/bounds/work_bound.h"
#include "search/part_costs/micro_batch_costs.h"
#include "search/part_costs/part_costs.h"

namespace partita::search {

struct ChainBound {
    Time value;
    graph::OpId first;  ///< of the chain; invalid: there is none
    graph::OpId last;   ///< in training where it turns back
};

/// Of plans with as many micro-batches as `times`. Time: O(length of the chain * numbers of
/// parts^2), some 30 times; a limit on that work leaves the bound that has been found until then.
ChainBound chain_bound(const plan::Problem& problem, const MicroBatchCosts& times,
                       const PartCosts& parts, const WorkBound& work);

}  // namespace partita::search
