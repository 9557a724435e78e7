// SPDX-License-Identifier: Apache-2.0
//
// Auto: what to run when nobody says. First the quick searchers (seed_search.h), the less promising of
// them in half of the budget at most; then mcmc from the best of them, for the rest:
//
//     budget asked for        quick searchers ─▶ mcmc until the budget is spent
//     none asked for          quick searchers ─▶ mcmc for as many proposals as make `work` tasks, again and
//                             again while the last quarter of them made the plan 1 % better;
//                             not at all where these would be too few
//
// For given costs local-search (loads/search.h, calls/search.h) takes the place of mcmc, without a budget
// for a second or so.
//
// One proposal costs about as many units of work as the best plan so far has tasks, twice that where
// these are in a schedule, where changes differ in all micro-batches: the same number on every host, so
// that without a budget a seed gives the same plan each time, in a few seconds.
// The plan carries the name of the searcher that found it.
//
// Optimal: no; never worse than a quick searcher that had its turn. Ends: as above.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "search/mcmc.h"
#include "search/searcher.h"
#include "search/seed_search.h"

namespace partita::search {

/// Without a budget.
struct AutoOptions {
    std::int64_t work = 8'000'000;  ///< tasks of all proposals together
    std::int64_t ordered = 2;       ///< a task in a schedule counts as so many
    std::int64_t most_proposals = 6'000;
    std::int64_t fewest_proposals = 20;    ///< fewer are not worth their beginning
    int most_rounds = 6;                   ///< of mcmc
    std::int64_t most_moves = 20'000'000;  ///< of local-search; fewer on graphs of few vertices:
    std::int64_t moves_per_pair = 1'000;   ///< of vertices
};

class AutoSearch final : public Searcher {
public:
    explicit AutoSearch(AutoOptions options = {});
    [[nodiscard]] Status step(Engine& engine) override;

private:
    [[nodiscard]] std::optional<McmcOptions> rest_of_budget(Engine& engine) const;
    [[nodiscard]] std::unique_ptr<Searcher> rest(Engine& engine);
    [[nodiscard]] bool goes_on(Engine& engine);

    AutoOptions options_;
    std::unique_ptr<SeedSearch> seeds_;
    std::unique_ptr<Searcher> rest_;
    int rounds_ = 0;                ///< of mcmc without a budget
    std::int64_t round_begin_ = 0;  ///< in evaluations
};

}  // namespace partita::search
