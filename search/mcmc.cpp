// SPDX-License-Identifier: Apache-2.0
#include "search/mcmc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "graph/error.h"
#include "search/engine.h"

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

Mcmc::Mcmc(McmcOptions options, std::unique_ptr<SeedSearch> seeds) : Mcmc(std::move(options)) {
    seeds_ = std::move(seeds);
}

Mcmc::~Mcmc() = default;

Status Mcmc::step(Engine& engine) {
    if (chains_.empty()) {
        if (seed(engine)) return Status::in_progress;
        engine.set_searcher("mcmc");
        start(engine);
    }
    return is_over(engine) ? Status::found : round(engine);
}

double Mcmc::spent(const Engine& engine) const {
    const std::optional<double> share = engine.spent();
    if (share && !options_.own_budget) return *share;
    return static_cast<double>(proposals_) / static_cast<double>(options_.proposals);
}

/// Proposals that repeat the evaluation before them are not counted: without a limit of their own a
/// problem of two states would never end.
bool Mcmc::is_over(const Engine& engine) const {
    if (options_.own_budget) return proposals_ >= options_.proposals;
    const auto& budget = engine.options().evaluations;
    if (budget) return proposals_ >= 2 * *budget + 100;
    return !engine.options().time_limit && proposals_ >= options_.proposals;
}

/// One step of the quick searchers. False: they are through, or have had their share.
bool Mcmc::seed(Engine& engine) {
    if (!seeds_) {
        if (!options_.seeded && engine.best() != nullptr) return false;
        seeds_ = std::make_unique<SeedSearch>(options_.seeding);
    }
    return seeds_->step(engine) == Status::in_progress;
}

/// The coldest chain starts from the best plan, the others from those that were the best before it.
void Mcmc::start(Engine& engine) {
    assert(engine.best() != nullptr);
    space_ = std::make_unique<SearchSpace>(engine.groups(), options_.table);
    const std::uint64_t seed = engine.random().next();
    std::vector<SeedSearch::Start> starts;
    if (seeds_) starts = seeds_->starts();
    if (starts.empty()) starts.emplace_back(*engine.best(), *engine.best_evaluation());
    for (int i = 0; i < options_.chains; ++i) {
        const std::size_t back = std::min(static_cast<std::size_t>(i), starts.size() - 1);
        const auto& [strategy, evaluation] = starts[starts.size() - 1 - back];
        chains_.emplace_back(*space_, strategy, evaluation,
                             Random::stream(seed, static_cast<std::uint64_t>(i)));
    }
    next_restarts_.assign(chains_.size(), 0);
    seeds_.reset();
}

void Mcmc::restart(const Engine& engine, double spent) {
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        double& next = next_restarts_[i];
        if (spent < next) continue;
        const bool first = next == 0;
        next = spent + static_cast<double>(i + 1) / options_.restarts;
        if (first || !engine.best_evaluation()->better_than(chains_[i].evaluation())) continue;
        chains_[i].restart(*engine.best(), *engine.best_evaluation());
    }
}

/// As a share of the value.
double Mcmc::temperature(std::size_t chain, double spent) const {
    const double heat = static_cast<double>(chain + 1) / static_cast<double>(chains_.size());
    const double left = heat * (1 - std::min(spent, 1.0));
    return options_.cold * std::pow(options_.hot / options_.cold, left);
}

Status Mcmc::round(Engine& engine) {
    const double spent = this->spent(engine);
    restart(engine, spent);
    std::vector<Chain*> drawn;
    std::vector<plan::Strategy> candidates;
    std::vector<const plan::Evaluation*> known;
    for (std::size_t i = 0; i < chains_.size(); ++i) {
        Chain& chain = chains_[i];
        if (!chain.draw(moves_, temperature(i, spent))) continue;
        drawn.push_back(&chain);
        candidates.push_back(chain.candidate());
        const Rejections::Known* rejected = chain.known();
        const bool priced = rejected != nullptr && rejected->evaluation;
        known.push_back(priced ? &*rejected->evaluation : nullptr);
    }
    if (candidates.empty()) return Status::found;
    std::vector<plan::Evaluation> evaluations = engine.evaluate(candidates, known);
    proposals_ += static_cast<std::int64_t>(candidates.size());
    for (std::size_t i = 0; i < evaluations.size(); ++i) {
        const bool accepted = drawn[i]->limit().accepts(evaluations[i]);
        engine.count_acceptance(accepted);
        if (accepted) {
            drawn[i]->accept(std::move(evaluations[i]));
        } else if (known[i] == nullptr) {
            drawn[i]->reject(std::move(evaluations[i]));
        }
    }
    return Status::in_progress;
}

}  // namespace partita::search
