// SPDX-License-Identifier: Apache-2.0
//
// A chain of Metropolis-Hastings that walks by itself: its own tables, and an evaluator that prices
// proposals by what they change (plan/incremental/evaluator.h).
//
// It prices with frozen priorities (Scheduler::rank), so that one change stays local; whoever takes
// its best strategy prices that once more as plans are.
//
// Threads: runners share nothing but problem and groups, so each may walk in a thread of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "plan/incremental/evaluator.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/group_graph.h"
#include "search/configs/search_space.h"
#include "search/configs/written_change.h"
#include "search/mcmc/chain.h"
#include "search/mcmc/moves/move.h"

namespace partita::search {

class ChainRunner {
public:
    struct Steps {
        std::int64_t proposals = 0;
        std::int64_t acceptances = 0;
        bool stuck = false;  ///< nothing can be proposed
    };

    /// `groups` must outlive it. `start` must be legal.
    ChainRunner(const GroupGraph& groups, const plan::Strategy& start, Random random);

    void restart(const plan::Strategy& strategy);

    /// So many proposals, fewer when `stopped` says so between two of them.
    Steps walk(std::span<const Move* const> moves, double temperature, std::int64_t proposals,
               const std::function<bool()>& stopped);

    [[nodiscard]] const plan::Score& score() const { return evaluator_.score(); }
    [[nodiscard]] std::size_t tasks() const { return evaluator_.tasks(); }
    /// The best strategy of the walk, if it is better than those that were taken before.
    [[nodiscard]] std::optional<plan::Strategy> take_best();

private:
    bool step();
    void note();
    void leave();

    SearchSpace space_;
    plan::IncrementalEvaluator evaluator_;
    Chain chain_;
    WrittenChange change_;
    std::optional<plan::Score> best_;
    bool is_best_ = false;  ///< the state is it, and nobody has it yet
    std::optional<plan::Strategy> best_strategy_;
};

}  // namespace partita::search
