// SPDX-License-Identifier: Apache-2.0
//
// One chain of Metropolis-Hastings (mcmc.h): a state, what it is worth, and the proposal at hand.
//
//     draw() ──▶ changes(), limit() ──▶ known()? ──▶ evaluation ──▶ accept() or reject()
//                                         └─ yes: decided at once
//
// The limit is drawn with the proposal, before anything is evaluated. Whoever evaluates chooses how:
// the whole strategy (candidate()), or by the changes alone, from the limit and from what it keeps of
// the state; it may then stop at a proof that the limit is exceeded and say so by reject(nullopt).
//
// Threads: the space fills itself, so chains of one space draw one after the other.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "plan/evaluator.h"
#include "plan/strategy.h"
#include "search/draft.h"
#include "search/limit.h"
#include "search/moves/move.h"
#include "search/random.h"
#include "search/rejections.h"
#include "search/state.h"

namespace partita::search {

class Chain {
public:
    /// `space` must outlive it.
    Chain(SearchSpace& space, plan::Strategy strategy, plan::Evaluation evaluation, Random random);

    /// Goes there, whatever it is worth.
    void restart(plan::Strategy strategy, plan::Evaluation evaluation);

    /// One proposal, by a move drawn by weight, and its limit at this temperature (a share of the
    /// value). False: many draws in a row proposed nothing.
    [[nodiscard]] bool draw(std::span<const Move* const> moves, double temperature);

    [[nodiscard]] const Changes& changes() const { return proposal_.changes; }
    [[nodiscard]] const Limit& limit() const { return limit_; }
    /// What rejections of the same proposal in this state have shown; null: nothing.
    [[nodiscard]] const Rejections::Known* known() const {
        return rejections_.find(proposal_.changes);
    }
    /// The state with the changes.
    [[nodiscard]] plan::Strategy candidate() const;

    void accept(plan::Evaluation evaluation);
    /// nullopt: its value is not known, but that it is above the limit.
    void reject(std::optional<plan::Evaluation> evaluation);

    [[nodiscard]] const State& state() const { return state_; }
    [[nodiscard]] const plan::Strategy& strategy() const { return strategy_; }
    [[nodiscard]] const plan::Evaluation& evaluation() const { return evaluation_; }

private:
    [[nodiscard]] bool draw_proposal(std::span<const Move* const> moves);

    SearchSpace* space_;
    State state_;
    plan::Strategy strategy_;  ///< of the state
    plan::Evaluation evaluation_;
    Random random_;
    Draft draft_;
    Proposal proposal_;
    Limit limit_;
    Rejections rejections_;
};

}  // namespace partita::search
