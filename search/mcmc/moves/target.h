// SPDX-License-Identifier: Apache-2.0
//
// What a move is applied to: an op alone, or as the leader of its group. And draws of its config.
#pragma once

#include "search/configs/search_space.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

struct Target {
    graph::OpId op;
    bool group = false;  ///< the computing ops of its group too; the op leads it
};

/// Two thirds groups, one third ops; ops evenly, so groups by their size.
Target draw_target(const SearchSpace& space, Random& random);

/// New degrees for the op alone, on these devices. Returns the log ratio, which is that of the
/// devices too: what was drawn does not depend on the old config.
double draw_degrees(SearchSpace& space, graph::OpId op, DevicesId devices, Random& random,
                    ProposalBuilder& builder);

/// Gives the target other devices, as many as it has. Ops of its group that lie there with it move
/// too; the split of each stays.
void relocate(const SearchSpace& space, ProposalBuilder& builder, const Target& target,
              DevicesId devices);

}  // namespace partita::search
