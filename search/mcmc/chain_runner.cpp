// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/chain_runner.h"

#include <utility>

namespace partita::search {

ChainRunner::ChainRunner(const GroupGraph& groups, const plan::Strategy& start, Random random)
    : space_(groups),
      evaluator_(groups.problem()),
      chain_(space_, start, evaluator_.start(start), random),
      best_(evaluator_.score()) {}

void ChainRunner::restart(const plan::Strategy& strategy) {
    leave();
    chain_.restart(strategy, evaluator_.start(strategy));
    // Whoever sends it there has the strategy.
    if (evaluator_.score().better_than(*best_)) best_ = evaluator_.score();
}

ChainRunner::Steps ChainRunner::walk(std::span<const Move* const> moves, double temperature,
                                     std::int64_t proposals, const std::function<bool()>& stopped) {
    Steps steps;
    while (steps.proposals < proposals && !stopped()) {
        if (!chain_.draw(moves, temperature)) {
            steps.stuck = true;
            break;
        }
        ++steps.proposals;
        if (step()) ++steps.acceptances;
    }
    return steps;
}

/// Decides about the proposal at hand.
bool ChainRunner::step() {
    const RejectionCache::Known* known = chain_.known();
    if (known != nullptr && known->accepted_by(chain_.limit()) == false) return false;
    const auto score =
        evaluator_.evaluate(change_.write(chain_.changes(), space_.table()), chain_.limit());
    if (!score) {
        chain_.reject(std::nullopt);
        return false;
    }
    leave();
    evaluator_.accept();
    chain_.accept(*score);
    note();
    return true;
}

void ChainRunner::note() {
    is_best_ = evaluator_.score().better_than(*best_);
    if (is_best_) best_ = evaluator_.score();
}

/// Before the state changes: the best strategy is copied once, not at each step towards it.
void ChainRunner::leave() {
    if (is_best_) best_strategy_ = evaluator_.strategy();
    is_best_ = false;
}

std::optional<plan::Strategy> ChainRunner::take_best() {
    leave();
    return std::exchange(best_strategy_, std::nullopt);
}

}  // namespace partita::search
