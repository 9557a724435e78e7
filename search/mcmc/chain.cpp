// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/chain.h"

#include <cmath>
#include <utility>

namespace partita::search {

namespace {

/// Draws of moves until one proposes something. Some never do in a problem: nothing repeats, say.
constexpr int kMostDraws = 256;

}  // namespace

Chain::Chain(SearchSpace& space, const plan::Strategy& strategy, const plan::Score& score,
             Random random)
    : space_(&space),
      state_(space.table(), strategy),
      score_(score),
      random_(random),
      builder_(space) {}

void Chain::restart(const plan::Strategy& strategy, const plan::Score& score) {
    state_ = State(space_->table(), strategy);
    score_ = score;
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
        if (propose(*moves[move], state_, random_, builder_, proposal_)) return true;
    }
    return false;
}

bool Chain::draw(std::span<const Move* const> moves, double temperature) {
    if (!draw_proposal(moves)) return false;
    const double u = 1 - random_.uniform();
    const auto value = static_cast<double>(score_.value.raw());
    const double slack = value * temperature * (proposal_.log_ratio - std::log(u));
    limit_ = score_;
    limit_.value += Time(std::llround(slack));
    return true;
}

void Chain::accept(const plan::Score& score) {
    state_.apply(proposal_.changes);
    score_ = score;
    rejections_.clear();
}

void Chain::reject(std::optional<plan::Score> score) {
    rejections_.remember(proposal_.changes, {score, limit_});
}

}  // namespace partita::search
