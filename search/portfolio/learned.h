// SPDX-License-Identifier: Apache-2.0
//
// Searchers that learn. They live in a library of their own (rl/), because it brings LibTorch with
// it; the table of searchers has their rows, and whoever runs a search that names one hands in
// this:
//
//     EngineOptions::learned ──▶ make("rl", engine) ──▶ a searcher like every other
//                                                          └─ finish(): policy and curve are written
//
// One object serves one search. A portfolio may name several of its rows, which make() sees in that
// order; a row that has no turn, because the search ended before, is not made.
//
// Threads: that of Engine::run().
#pragma once

#include <memory>
#include <string_view>

#include "search/core/searcher.h"

namespace partita::search {

class Engine;
struct EngineOptions;

class LearnedSearchers {
public:
    virtual ~LearnedSearchers() = default;
    /// `name`: of a row of searcher_table() that is `learned`. The searcher ends before the next
    /// one is made, and before finish().
    [[nodiscard]] virtual std::unique_ptr<Searcher> make(std::string_view name, Engine& engine) = 0;
    /// The engine calls it once after a search that made a searcher, also when that was
    /// interrupted: writes what was asked for. Throws UsageError for a file that cannot be written.
    virtual void finish() = 0;
};

/// Those of the options. Throws UsageError that says how to get them when there are none.
LearnedSearchers& learned_searchers(const EngineOptions& options);

}  // namespace partita::search
