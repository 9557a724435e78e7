// SPDX-License-Identifier: Apache-2.0
//
// The quick searchers of the table (in_auto), as `auto` and `mcmc` start with them. They run in three
// waves; inside a wave each makes one step in turn, so that even a small budget meets the best proposal
// of each:
//
//     1   single-device ─▶ data-parallel ─▶ expert ─▶ data-parallel ─▶ expert ─▶ ...
//         last, for throughput alone: contiguous, where the graph has not too many ideals
//     2   elimination, where ops may be split, for other objectives and budgets of 200 evaluations or fewer
//     3   critical-path ─▶ multi-objective ─▶ ...      only while less than `share` is spent
//
// Elimination knows no pipelines, and expert looks for them only as far as they may beat the best plan: so
// it comes after.
// Where one evaluation is expensive, the first wave may take all of the budget: its dozen of proposals
// is worth more than as many random moves. The second is left out then, too. The third places whole
// ops, and rarely wins in training.
//
// Optimal: no. Ends: after the last of them, or as above.
// Random: none; the same proposals in the same order, whatever the seed.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/strategy/strategy.h"
#include "search/searcher.h"
#include "search/searchers.h"

namespace partita::search {

class SeedSearch final : public Searcher {
public:
    using Start = std::pair<plan::Strategy, plan::Evaluation>;

    /// `share` of the engine's budget, in [0, 1]; without a budget they all have their turn.
    explicit SeedSearch(double share) : share_(share) {}
    ~SeedSearch() override;

    [[nodiscard]] Status step(Engine& engine) override;

    /// What was the best of all after some step, each better than the one before.
    [[nodiscard]] const std::vector<Start>& starts() const { return starts_; }

private:
    struct Turn {
        std::string_view name;
        std::unique_ptr<Searcher> searcher;
    };

    bool fill(Engine& engine);
    void add(Engine& engine, const SearcherRow& row);

    double share_;
    int wave_ = 0;
    std::vector<Turn> turns_;  ///< of this wave
    std::size_t next_ = 0;
    std::vector<Start> starts_;
};

}  // namespace partita::search
