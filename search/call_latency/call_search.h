// SPDX-License-Identifier: Apache-2.0
//
// Annealing for the latency of subgraph calls (plan/evaluation/subgraph_latency.h). A few logical
// chains, each of which goes through some cycles from hot to cold; the proposals are those of
// search/call_latency/call_moves.h:
//
//     cycle     0      1      2      3    ...
//     chain 0   fresh  best   fresh  best       fresh: from a placement of its own, from as hot as makes it
//     chain 1   fresh  fresh  best   fresh             forgotten
//      ...                                      best:  from the best of all, from less hot
//
// A fresh start fills accelerator after accelerator to its capacity, in topological order (the
// greedy of the published code), in the opposite one, or puts all on CPUs. Proposals are accepted
// as by Metropolis, with T a share of the best latency; what needs fewer bytes above capacity
// always, more never.
//
// Optimal: no. Never worse than what was found before it. Ends: with the budget; without one after
// CallSearchOptions::proposals. Threads: chains are logical, the result does not depend on their
// number.
// Time: a proposal costs a pass over ops and edges, and one over the stretch of each device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "search/call_latency/call_moves.h"
#include "search/call_latency/call_space.h"
#include "search/call_latency/call_state.h"
#include "search/core/searcher.h"

namespace partita::search {

struct CallSearchOptions {
    int chains = 4;  ///< >= 1
    int cycles = 3;  ///< of each chain; >= 1
    double hot =
        5e-2;  ///< T at the beginning of a fresh cycle, as a share of the best latency; > 0
    double warm = 1e-2;      ///< of one from the best; > 0
    double spread = 1.4;     ///< by so much each chain begins hotter than the one before; >= 1
    double cold = 3e-4;      ///< at the end of any; > 0
    double guidance = 0.02;  ///< of CallState
    std::int64_t proposals = 600'000;  ///< at most, without a budget
    std::int64_t work = 400'000'000;   ///< ops of all proposals together, at most, without one
    bool own_budget = false;           ///< ends after `proposals`; the engine's budget only limits
};

class CallSearch final : public Searcher {
public:
    explicit CallSearch(CallSearchOptions options = {});
    ~CallSearch() override;

    /// Is it made for the engine's problem? For others it must not be used.
    [[nodiscard]] static bool applies(const Engine& engine);

    [[nodiscard]] Status step(Engine& engine) override;

private:
    class Walk;

    void start(Engine& engine);
    void begin_cycles(Engine& engine, double spent);
    [[nodiscard]] Status round(Engine& engine);
    [[nodiscard]] double spent(const Engine& engine) const;
    [[nodiscard]] std::int64_t proposals_per_walk(const Engine& engine) const;
    [[nodiscard]] double temperature(double spent, std::size_t chain) const;
    [[nodiscard]] bool is_fresh(std::size_t chain) const;
    [[nodiscard]] std::vector<std::int32_t> fresh_start(std::size_t chain) const;

    CallSearchOptions options_;
    std::unique_ptr<CallSpace> space_;
    std::vector<std::unique_ptr<Walk>> chains_;
    int cycle_ = -1;
    std::int64_t most_ = 0;  ///< proposals without a budget
    std::int64_t proposals_ = 0;
};

}  // namespace partita::search
