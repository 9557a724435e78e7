// SPDX-License-Identifier: Apache-2.0
#include "search/chain.h"

#include <cmath>
#include <utility>

namespace partita::search {

namespace {

/// Draws of moves until one proposes something. Some never do in a problem: nothing repeats, say.
constexpr int kMostDraws = 256;

}  // namespace

Chain::Chain(SearchSpace& space, plan::Strategy strategy, plan::Evaluation evaluation,
             Random random)
    : space_(&space),
      state_(space.table(), strategy),
      strategy_(std::move(strategy)),
      evaluation_(std::move(evaluation)),
      random_(random),
      draft_(space) {}

void Chain::restart(plan::Strategy strategy, plan::Evaluation evaluation) {
    state_ = State(space_->table(), strategy);
    strategy_ = std::move(strategy);
    evaluation_ = std::move(evaluation);
    rejections_.clear();
}

bool Chain::draw_proposal(std::span<const Move* const> moves) {
    if (space_->computing().empty()) return false;
    std::uint64_t total = 0;
    for (const Move* move : moves) total += static_cast<std::uint64_t>(move->weight);
    for (int i = 0; i < kMostDraws; ++i) {
        std::uint64_t ticket = random_.below(total);
        std::size_t move = 0;
        while (ticket >= static_cast<std::uint64_t>(moves[move]->weight)) {
            ticket -= static_cast<std::uint64_t>(moves[move++]->weight);
        }
        if (propose(*moves[move], state_, random_, draft_, proposal_)) return true;
    }
    return false;
}

bool Chain::draw(std::span<const Move* const> moves, double temperature) {
    if (!draw_proposal(moves)) return false;
    const double u = 1 - random_.uniform();
    const auto value = static_cast<double>(evaluation_.value.raw());
    const double slack = value * temperature * (proposal_.log_ratio - std::log(u));
    limit_ = {evaluation_.keeps_schedule, evaluation_.overflow,
              evaluation_.value + Time(std::llround(slack))};
    return true;
}

plan::Strategy Chain::candidate() const {
    plan::Strategy candidate = strategy_;
    apply(proposal_.changes, space_->table(), candidate);
    return candidate;
}

void Chain::accept(plan::Evaluation evaluation) {
    state_.apply(proposal_.changes);
    apply(proposal_.changes, space_->table(), strategy_);
    evaluation_ = std::move(evaluation);
    rejections_.clear();
}

void Chain::reject(std::optional<plan::Evaluation> evaluation) {
    rejections_.remember(proposal_.changes, {std::move(evaluation), limit_});
}

}  // namespace partita::search
