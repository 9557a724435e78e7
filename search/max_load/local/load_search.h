// SPDX-License-Identifier: Apache-2.0
//
// Local search for the throughput of given costs: the least largest load over all assignments,
// contiguous or not. A few logical chains make runs of simulated annealing (load_annealer.h), one
// after the other:
//
//     chain 0, 2    from the best plan so far; its first run from the plan that the search began with
//     chain 1, 3    from any plan (every second run from the one that the search began with)
//     chain 2, 3    less sharp at first, so that they go further
//
// Every run of a chain is twice as long as the one before: an early end finds good plans, a late
// one has spent half of its time on runs that are as slow as its budget allows. All chains walk for
// some proposals, then the best of them is priced as a plan and known to all.
//
// After all work, and whenever it has doubled since, what lies on two or three devices of the best
// plan is placed anew among these by branch and bound, until that helps no more (neighbourhoods.h).
//
// Optimal: no; never worse than its start. Ends: after `work`, without a budget; else with the
// budget.
// Threads: chains are logical, the result does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/strategy/strategy.h"
#include "search/core/searcher.h"
#include "search/max_load/local/load_annealer.h"
#include "search/max_load/local/neighbourhoods.h"
#include "search/max_load/model/load_graph.h"
#include "search/max_load/model/load_state.h"

namespace partita::search {

struct LoadSearchOptions {
    int chains = 4;  ///< >= 1
    /// Of all chains together, by the number of vertices n: min(most_work, work_per_pair * n^2).
    std::int64_t most_work = 200'000'000;
    std::int64_t work_per_pair = 10'000;
    bool own_budget = false;  ///< ends after that work; the engine's budget only limits
};

class LoadSearch final : public Searcher {
public:
    /// Objective and costs for which it is made.
    [[nodiscard]] static bool applies(const Engine& engine);

    explicit LoadSearch(LoadSearchOptions options = {});
    ~LoadSearch() override;

    /// Needs a best plan to start from. Some million moves.
    [[nodiscard]] Status step(Engine& engine) override;

private:
    struct ChainOf;

    void start(Engine& engine);
    [[nodiscard]] Status round(Engine& engine);
    [[nodiscard]] bool is_over(const Engine& engine) const;
    void begin_run(std::size_t index);
    void adopt(Engine& engine);
    void begin_to_look();
    void look_around(Engine& engine);
    void take(Engine& engine, const LoadScore& score, const std::vector<std::int32_t>& devices);
    [[nodiscard]] plan::Strategy strategy(const Engine& engine,
                                          const std::vector<std::int32_t>& devices) const;

    LoadSearchOptions options_;
    std::unique_ptr<LoadProblem> problem_;
    std::vector<std::unique_ptr<ChainOf>> chains_;
    std::vector<std::int32_t> first_;  ///< what it began with
    std::vector<std::int32_t> best_;
    LoadScore best_score_;
    std::int64_t work_ = 0;
    std::int64_t most_work_ = 0;
    /// Of the best plan, while they are looked at.
    std::unique_ptr<LoadNeighbourhoods> neighbourhoods_;
    std::vector<std::int32_t> looked_at_;  ///< the best plan when there was no success left
    std::int64_t next_look_ = 0;           ///< when so much work is done
};

}  // namespace partita::search
