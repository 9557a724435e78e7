// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem/graph_facts.h"
#include "plan/problem/op_constraints.h"
#include "plan/problem/prices.h"
#include "plan/problem/transfer_prices.h"

namespace partita::plan {

/// Frozen priorities: by GraphFacts::passes(), place of every op's passes (of a parameter its
/// update), as far as the problem has them, in the order of their longest paths to the end of an
/// iteration, by times of whole ops on the first device that each may use. Smaller = more urgent;
/// no two are equal. Independent of any strategy, so that a change of one op changes the priority
/// of no other.
/// Source: Topcuoglu et al., HEFT, TPDS 2002 (upward rank).
std::vector<std::int32_t> op_priorities(const GraphFacts& facts, const OpConstraints& constraints,
                                        const Prices& prices, const TransferPrices& transfers);

}  // namespace partita::plan
