// SPDX-License-Identifier: Apache-2.0
//
// Markov chain Monte Carlo over strategies. A few logical chains begin where plans were the best
// for a while (Engine::starts()), or all at the best; each draws a proposal (moves/move.h) and
// prices it:
//
//     accept(S -> S*) with probability min(1, q(S*->S) / q(S->S*) * exp((value(S) - value(S*)) / T)),
//     that is when value(S*) <= limit = value(S) + T * (log ratio - ln u), u uniform in (0, 1]
//
// u is drawn before pricing: acceptance is then a comparison with a known limit, and an evaluator
// may stop as soon as its lower bound passes it. Schedules kept and memory go before time: fewer
// bytes too many are always accepted, more never.
//
// A proposal that was rejected before in the same state is not priced again (rejection_cache.h); it
// counts as an evaluation all the same, so that plans do not depend on what is remembered.
//
// Every chain walks on its own for some proposals (chain_runner.h), in a thread if there is one;
// then the new best strategies of all are priced as plans are, which is not counted again.
//
// T is a share of the chain's value, falling geometrically from a hot one to a cold one with the
// budget that is spent; the first chain is the coldest, the others are hotter by equal ratios. From
// time to time a chain goes back to the best plan of all, the colder the more often.
//
//     chain 0   cold    back to the best every fiftieth of the budget
//     chain 3   hot     every four fiftieths
//
// With McmcOptions::shakes the same is iterated descent: the budget has that many equal parts, each
// begins at the best plan of all with a tenth at the temperatures that these chains have at their
// hottest, and then only goes downhill or level: `local-search`, for problems that it has no better
// moves for (composed_searchers.h).
//
// Optimal: no; the engine adds lower bound and gap.
// Ends: with the budget; without one after McmcOptions::proposals; when nothing can be changed.
// Threads: chains are logical, the result does not depend on the number of threads.
// Source: Jia, Zaharia, Aiken, MLSys 2019, section 6; REFERENCES.md 6.5.
// Differs: the paper gives no temperature (its prototype one in 1/ms); moves of more than one op.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/strategy/strategy.h"
#include "search/configs/search_space.h"
#include "search/core/searcher.h"
#include "search/mcmc/chain_runner.h"
#include "search/mcmc/moves/move.h"

namespace partita::search {

struct McmcOptions {
    int chains = 4;      ///< >= 1
    double hot = 1e-2;   ///< T at the beginning, of the hottest chain, as a share of its value; > 0
    double cold = 1e-5;  ///< T at the end, of all chains; > 0
    int restarts = 50;   ///< of the coldest chain; >= 1
    std::int64_t proposals = 20'000;  ///< at most, without a budget
    bool own_budget = false;          ///< ends after `proposals`; the engine's budget only limits
    int shakes = 0;                   ///< > 0: iterated descent, shaken so often; see above
    std::vector<std::string> moves;   ///< names; empty: all
};

class Mcmc final : public Searcher {
public:
    /// Throws UsageError for a move that there is not.
    explicit Mcmc(McmcOptions options = {});
    ~Mcmc() override;

    /// Needs a best plan to start from.
    [[nodiscard]] Status step(Engine& engine) override;

private:
    void start(Engine& engine);
    [[nodiscard]] Status round(Engine& engine);
    [[nodiscard]] std::int64_t proposals_per_walk(const Engine& engine) const;
    void restart(Engine& engine, double spent);
    [[nodiscard]] double spent(const Engine& engine) const;
    [[nodiscard]] double temperature(std::size_t chain, double spent) const;
    [[nodiscard]] bool is_over(const Engine& engine) const;

    McmcOptions options_;
    std::vector<const Move*> moves_;
    std::vector<std::unique_ptr<ChainRunner>> chains_;
    std::vector<double> next_restarts_;  ///< of each chain, in shares of the budget
    std::int64_t proposals_ = 0;
};

}  // namespace partita::search
