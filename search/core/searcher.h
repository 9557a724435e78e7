// SPDX-License-Identifier: Apache-2.0
//
// A searcher proposes strategies. The engine owns loop, budget, seed, threads, best-so-far and
// statistics (docs/architecture.md); a searcher supplies step():
//
//     while (searcher.step(engine) == Status::in_progress && !engine.exhausted()) {}
//
// A step proposes some strategies with engine.evaluate(), which returns fewer evaluations than
// asked when the budget runs out, and remembers the best of them. The very first evaluation of a
// search is always granted, so a search that ends at once still has a complete plan.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace partita::search {

class Engine;

enum class Status : std::uint8_t {
    in_progress,       ///< of a step only: there is more to do
    optimal,           ///< no legal strategy is better
    found,             ///< the searcher ended by itself
    budget_exhausted,  ///< time or evaluations ran out, or the user interrupted
    none_found,        ///< the same, before anything was proposed that fits
    infeasible,        ///< nothing proposed fits the memory, or the constraints contradict
};
std::string_view name_of(Status status);

class Searcher {
public:
    virtual ~Searcher() = default;
    /// Returns in_progress, found (it has nothing more to propose) or optimal (what the engine now
    /// holds as best is proven). Must be cut into steps of a few seconds at most.
    [[nodiscard]] virtual Status step(Engine& engine) = 0;
};

/// What there is to know of a searcher before it is made; searcher_table() has a row for each.
struct SearcherRow {
    std::string_view name;
    std::string_view summary;  ///< one line
    std::unique_ptr<Searcher> (*make)(Engine& engine);
    bool in_auto = false;  ///< cheap enough to be tried first by `auto` and `mcmc`
    bool endless = false;  ///< goes on for as long as it may
    bool learned = false;  ///< of EngineOptions::learned; runs only where it is named
};

}  // namespace partita::search
