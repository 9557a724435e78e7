// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc/mcmc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "search/core/engine.h"

namespace partita::search {

Mcmc::Mcmc(McmcOptions options) : options_(std::move(options)) {
    assert(options_.chains >= 1 && options_.restarts >= 1);
    for (const std::string& name : options_.moves) {
        const Move* move = find_move(name);
        if (move == nullptr) throw UsageError(fmt::format("mcmc: unknown move '{}'", name));
        moves_.push_back(move);
    }
    if (options_.moves.empty()) {
        for (const Move& move : move_table()) moves_.push_back(&move);
    }
}

Mcmc::~Mcmc() = default;

Status Mcmc::step(Engine& engine) {
    if (chains_.empty()) start(engine);
    return is_over(engine) ? Status::found : round(engine);
}

double Mcmc::spent(const Engine& engine) const {
    const std::optional<double> share = engine.spent();
    if (share && !options_.own_budget) return *share;
    return static_cast<double>(proposals_) / static_cast<double>(options_.proposals);
}

/// The engine ends a search whose budget is spent.
bool Mcmc::is_over(const Engine& engine) const {
    return (options_.own_budget || !engine.spent()) && proposals_ >= options_.proposals;
}

/// The coldest chain starts from the best plan, the others from those that were the best before it.
void Mcmc::start(Engine& engine) {
    if (options_.moves.empty()) {
        std::erase_if(moves_, [&](const Move* move) {
            return move->applies != nullptr && !move->applies(engine.problem());
        });
    }
    assert(engine.best() != nullptr);
    const std::uint64_t seed = engine.random().next();
    std::vector<plan::Strategy> starts = engine.starts();
    if (starts.empty()) starts.push_back(*engine.best());
    chains_.resize(static_cast<std::size_t>(options_.chains));
    engine.parallel(chains_.size(), [&](std::size_t i) {
        const std::size_t back = std::min(i, starts.size() - 1);
        chains_[i] = std::make_unique<ChainRunner>(
            engine.groups(), starts[starts.size() - 1 - back], Random::stream(seed, i));
    });
    next_restarts_.assign(chains_.size(), 0);
    engine.forget_starts();
}

void Mcmc::restart(Engine& engine, double spent) {
    std::vector<ChainRunner*> back;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        double& next = next_restarts_[i];
        if (spent < next) continue;
        const bool first = next == 0;
        if (options_.shakes > 0) {
            next = (std::floor(spent * options_.shakes) + 1) / options_.shakes;
        } else {
            next = spent + static_cast<double>(i + 1) / options_.restarts;
        }
        const plan::Score score = plan::score_of(*engine.best_evaluation());
        if (!first && score.better_than(chains_[i]->score())) back.push_back(chains_[i].get());
    }
    engine.parallel(back.size(), [&](std::size_t i) { back[i]->restart(*engine.best()); });
}

/// As a share of the value.
double Mcmc::temperature(std::size_t chain, double spent) const {
    const double heat = static_cast<double>(chain + 1) / static_cast<double>(chains_.size());
    if (options_.shakes > 0) {
        constexpr double kShaken = 0.1;
        const double part = spent * options_.shakes;
        const bool shaken = part - std::floor(part) < kShaken;
        return shaken ? options_.cold * std::pow(options_.hot / options_.cold, heat) : 0;
    }
    const double left = heat * (1 - std::min(spent, 1.0));
    return options_.cold * std::pow(options_.hot / options_.cold, left);
}

/// A millisecond's worth, by the size of the problem alone: results must not depend on clocks.
/// Fewer where the budget is small, so that the temperature falls in steps all the same.
std::int64_t Mcmc::proposals_per_walk(const Engine& engine) const {
    constexpr std::int64_t kTasks = 200'000;
    constexpr std::int64_t kMost = 100;
    constexpr std::int64_t kWalks = 40;
    const auto tasks = static_cast<std::int64_t>(chains_.front()->tasks());
    if (tasks == 0) return 1;
    const auto chains = static_cast<std::int64_t>(chains_.size());
    std::optional<std::int64_t> budget = engine.options().evaluations;
    if (options_.own_budget) budget = options_.proposals;
    const std::int64_t share = budget ? *budget / (kWalks * chains) : kMost;
    return std::clamp<std::int64_t>(std::min(kTasks / tasks, share), 1, kMost);
}

Status Mcmc::round(Engine& engine) {
    const double spent = this->spent(engine);
    restart(engine, spent);
    engine.set_done(spent);
    const auto count = static_cast<std::int64_t>(chains_.size());
    std::int64_t wanted = count * proposals_per_walk(engine);
    if (options_.own_budget) wanted = std::min(wanted, options_.proposals - proposals_);
    const std::int64_t granted = engine.grant(wanted);
    std::vector<ChainRunner::Steps> steps(chains_.size());
    engine.parallel(chains_.size(), [&](std::size_t i) {
        const auto index = static_cast<std::int64_t>(i);
        const std::int64_t own = granted / count + (index < granted % count ? 1 : 0);
        steps[i] = chains_[i]->walk(moves_, temperature(i, spent), own,
                                    [&] { return engine.interrupted(); });
    });
    std::vector<plan::Strategy> best;
    bool stuck = true;
    std::int64_t made = 0;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        if (auto strategy = chains_[i]->take_best()) best.push_back(std::move(*strategy));
        made += steps[i].proposals;
        engine.count_acceptances(steps[i].proposals, steps[i].acceptances);
        stuck = stuck && steps[i].stuck;
    }
    proposals_ += made;
    engine.give_back(granted - made);
    engine.confirm(best);
    return stuck ? Status::found : Status::in_progress;
}

}  // namespace partita::search
