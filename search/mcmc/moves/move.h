// SPDX-License-Identifier: Apache-2.0
//
// Moves: random changes of a strategy. A move edits a proposal and says how likely the way back is:
//
//     log ratio = ln( q(back) / q(there) )      q: probability of being drawn; 0 for symmetric moves
//
// Metropolis-Hastings multiplies its acceptance by that ratio, so that no config is favoured
// because it is drawn more often. What follows a changed op (proposal_builder.h: its group,
// sources, outputs) had been placed by following too, or else its former place is lost and no
// single draw leads back; the ratio leaves that out. A search for the best plan does not need an
// exact distribution.
//
// Every move keeps strategies legal (proposal_builder.h), draws from the given generator alone, and
// is one row of the table: a file pair and a row are the whole registration.
// Source: Hastings, Biometrika 57, 1970; Jia et al., MLSys 2019, section 6.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "search/configs/search_space.h"
#include "search/configs/state.h"
#include "search/configs/state_change.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/support/random.h"

namespace partita::search {

struct Move {
    std::string_view name;
    std::string_view summary;
    /// Edits the proposal and returns the log ratio; nullopt: nothing to do for what was drawn.
    std::optional<double> (*draw)(SearchSpace& space, Random& random, ProposalBuilder& builder);
    int weight = 1;  ///< how often it is tried, relative to the others; > 0
    bool (*applies)(const plan::Problem& problem) = nullptr;  ///< null: to every problem
};

std::span<const Move> move_table();
/// Null when there is none of that name.
const Move* find_move(std::string_view name);

struct Proposal {
    Changes changes;
    double log_ratio = 0;
};

/// One draw of a move, into `proposal`. False: nothing to change, or nothing legal. Nothing is
/// allocated once the tables of the space know the configs in question.
bool propose(const Move& move, const State& state, Random& random, ProposalBuilder& builder,
             Proposal& proposal);

}  // namespace partita::search
