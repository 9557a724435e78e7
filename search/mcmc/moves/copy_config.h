// SPDX-License-Identifier: Apache-2.0
//
// Copy a config: ops around a random one take over its config, so that nothing is resharded between
// them (layout_propagation.h). Every other time that one gets new degrees first, on the same
// devices or on others, and a part of the network, or all of it, changes over together: data
// parallelism is one such move away from a single device.
//
//     a ─▶ b ─▶ c ─▶ d ─▶ e      from c forward, 2 ops: d, e;  around c, 3 ops: b, d, a
//
// The ops are those next in the data, forward, backward or both ways; 1, 2, 4, ... of them.
//
// Ratio: that of the new config. No single draw may restore what the others had; the chain can
// leave such states one op at a time, through the other moves.
// Source: the propagation of the released FlexFlow (REFERENCES.md 6.5), which copies along one
// path.
#pragma once

#include <optional>

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

std::optional<double> copy_config(SearchSpace& space, Random& random, ProposalBuilder& builder);

}  // namespace partita::search
