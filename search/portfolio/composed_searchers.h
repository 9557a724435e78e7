// SPDX-License-Identifier: Apache-2.0
//
// The searchers of the table that are made of others, as lists of stages (staged_search.h).
//
//     auto           quick searchers ─▶ mcmc, or local search where costs are given
//     mcmc           quick searchers ─▶ mcmc
//     local-search   quick searchers ─▶ for the throughput of given costs: annealing of whole assignments
//                                       (load_search.h); for their latency: of regions of the graph (call_search.h);
//                                       else iterated descent with the moves of mcmc (McmcOptions::shakes)
//     exact          for the throughput of given costs: contiguous ─▶ annealing ─▶ branch and bound (exact.h);
//                    else as local-search, and the engine's lower bound stands
//
// The plan carries the name of the searcher that found it. Optimal: no but for exact; never worse
// than a quick searcher that had its turn.
//
// Without a budget `auto` ends by itself, with the same plan of a seed on every host, in a few
// seconds: mcmc has as many proposals as make `work` tasks, again and again while the last quarter
// of them made the plan 1 % better; it is left out where these would be too few. One proposal costs
// about as many units of work as the best plan so far has tasks, twice that where these are in a
// schedule, where changes differ in all micro-batches.
#pragma once

#include <cstdint>
#include <memory>

#include "search/core/searcher.h"
#include "search/max_load/exact/exact.h"
#include "search/mcmc/mcmc.h"

namespace partita::search {

/// Without a budget.
struct AutoOptions {
    std::int64_t work = 8'000'000;  ///< tasks of all proposals together
    std::int64_t ordered = 2;       ///< a task in a schedule counts as so many
    std::int64_t most_proposals = 6'000;
    std::int64_t fewest_proposals = 20;    ///< fewer are not worth their beginning
    int most_rounds = 6;                   ///< of mcmc
    std::int64_t most_moves = 20'000'000;  ///< of local search; fewer on graphs of few vertices:
    std::int64_t moves_per_pair = 1'000;   ///< of vertices
};

std::unique_ptr<Searcher> make_auto(const AutoOptions& options = {});
std::unique_ptr<Searcher> make_mcmc(const McmcOptions& options = {});
std::unique_ptr<Searcher> make_local_search();
/// Throws UsageError when HiGHS is asked for by name and is not there.
std::unique_ptr<Searcher> make_exact(const Engine& engine, const ExactOptions& options = {});

}  // namespace partita::search
