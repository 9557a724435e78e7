// SPDX-License-Identifier: Apache-2.0
//
// A portfolio as one searcher: stages, one after the other, of searchers that take turns.
//
//     stage 1   single-device ─▶ data-parallel ─▶ expert ─▶ data-parallel ─▶ expert ─▶ ...
//     stage 2   critical-path ─▶ multi-objective ─▶ ...            begins while less than `begins_below` is spent,
//     stage 3   mcmc                                               and ends when `ends_at` is
//
// In a stage each searcher makes one step in turn until it has ended, so that even a small budget
// meets the first proposals of all.
//
// Optimal: when a searcher says so. Ends: after the last stage; a later stage than the first needs
// a best plan.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <vector>

#include "search/core/searcher.h"

namespace partita::search {

/// A searcher at work, and the name that its plans carry.
struct NamedSearcher {
    std::string_view name;
    std::unique_ptr<Searcher> searcher;
};

struct Stage {
    /// Who takes turns in round 0, 1, ... of the stage; nobody: the stage has ended.
    std::function<std::vector<NamedSearcher>(Engine& engine, int round)> round;
    int rounds = 1;  ///< at most
    // Shares of the engine's budget; without a budget all have their turn.
    double begins_below =
        std::numeric_limits<double>::infinity();  ///< where more is spent, it is left out
    double ends_at = std::numeric_limits<double>::infinity();
    /// What is the best after a step is where later stages may start (Engine::starts()).
    bool gives_starts = false;
};

class StagedSearch final : public Searcher {
public:
    explicit StagedSearch(std::vector<Stage> stages);
    ~StagedSearch() override;

    [[nodiscard]] Status step(Engine& engine) override;

private:
    [[nodiscard]] Status begin_round(Engine& engine);
    void end_stage();

    std::vector<Stage> stages_;
    std::size_t stage_ = 0;
    int round_ = 0;                     ///< the next one
    std::vector<NamedSearcher> turns_;  ///< of this round; those that have not ended
    std::size_t next_ = 0;              ///< whose turn it is
};

}  // namespace partita::search
