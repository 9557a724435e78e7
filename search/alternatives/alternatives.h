// SPDX-License-Identifier: Apache-2.0
//
// What if one op were split otherwise, or lay elsewhere? Every config that searches may give it, with
// what must follow (its parameters, sources and outputs), and each of them once more in all equal layers,
// with the ops of its group:
//
//     configs of the op ─▶ ProposalBuilder, as moves do ─▶ IncrementalEvaluator ─▶ the best of them exactly,
//     (ConfigTable)        (search/mcmc/moves)             (by Scheduler::rank)     by the plan's scheduler
//
// Where the strategy keeps its schedule, they do.
//
// Threads: one per core for the exact prices; one search per call. The same strategy gives the same
// alternatives.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/evaluation/score.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

struct Alternative {
    plan::Strategy strategy;       ///< with that change alone
    plan::OpConfig config;         ///< of the op
    bool in_equal_layers = false;  ///< its group and the same ops of all equal layers too
    std::int64_t changed_ops = 0;
    plan::Score score;
};

struct Alternatives {
    plan::Score now;          ///< of the strategy as it is
    std::int64_t layers = 1;  ///< equal ones, the op's among them
    std::int64_t tried = 0;
    bool all = true;                ///< false: there are more configs than were tried
    std::vector<Alternative> best;  ///< best first; none is the strategy itself
};

/// Called with how much is done, 0 to 1.
using AlternativesProgress = std::function<void(double)>;

/// At most `most` of each kind. `op` must run something forward (GraphFacts::has_forward), the strategy
/// be legal.
Alternatives alternatives_of(
    const plan::Problem& problem, const plan::Strategy& strategy, graph::OpId op,
    plan::Scheduler scheduler, int most, const AlternativesProgress& progress = [](double) {});

}  // namespace partita::search
