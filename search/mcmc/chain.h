// SPDX-License-Identifier: Apache-2.0
//
// One chain of Metropolis-Hastings (mcmc.h): a state, what it is worth, and the proposal at hand.
//
//     draw() ──▶ changes(), limit() ──▶ known()? ──▶ evaluation ──▶ accept() or reject()
//                                         └─ yes: decided at once
//
// The limit is drawn with the proposal, before anything is evaluated. Whoever evaluates may stop at
// a proof that the limit is exceeded and say so by reject(nullopt).
//
// Threads: the space fills itself, so chains of one space draw one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plan/evaluation/score.h"
#include "plan/strategy/strategy.h"
#include "search/configs/state.h"
#include "search/mcmc/moves/move.h"
#include "search/mcmc/moves/proposal_builder.h"
#include "search/mcmc/rejection_cache.h"
#include "search/support/random.h"

namespace partita::search {

class Chain {
public:
    /// `space` must outlive it.
    Chain(SearchSpace& space, const plan::Strategy& strategy, const plan::Score& score,
          Random random);

    /// Goes there, whatever it is worth.
    void restart(const plan::Strategy& strategy, const plan::Score& score);

    /// One proposal, by a move drawn by weight, and its limit at this temperature (a share of the
    /// value). False: many draws in a row proposed nothing.
    [[nodiscard]] bool draw(std::span<const Move* const> moves, double temperature);

    [[nodiscard]] const Changes& changes() const { return proposal_.changes; }
    [[nodiscard]] const plan::Score& limit() const { return limit_; }
    /// What rejections of the same proposal in this state have shown; null: nothing.
    [[nodiscard]] const RejectionCache::Known* known() const {
        return rejections_.find(proposal_.changes);
    }

    void accept(const plan::Score& score);
    /// nullopt: its value is not known, but that it is above the limit.
    void reject(std::optional<plan::Score> score);

    [[nodiscard]] const State& state() const { return state_; }
    [[nodiscard]] const plan::Score& score() const { return score_; }

private:
    [[nodiscard]] bool draw_proposal(std::span<const Move* const> moves);

    SearchSpace* space_;
    State state_;
    plan::Score score_;
    Random random_;
    ProposalBuilder builder_;
    Proposal proposal_;
    plan::Score limit_;
    RejectionCache rejections_;
};

}  // namespace partita::search
