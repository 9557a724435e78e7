// SPDX-License-Identifier: Apache-2.0
//
// Searchers that learn. They live in a library of their own (rl/), because it brings LibTorch with it; the
// table of searchers has their rows, and whoever runs a search that names one hands in this:
//
//     EngineOptions::learned ──▶ make("rl", engine) ──▶ a searcher like every other
//                                                          └─ finish(): policy and curve are written
//
// Threads: that of Engine::run().
#pragma once

#include <memory>
#include <string_view>

#include "search/searcher.h"

namespace partita::search {

class Engine;

class LearnedSearchers {
public:
    virtual ~LearnedSearchers() = default;
    /// `name`: of a row of searcher_table() that is `learned`.
    [[nodiscard]] virtual std::unique_ptr<Searcher> make(std::string_view name, Engine& engine) = 0;
    /// After the search, also one that was interrupted: writes what was asked for. Throws InputError for
    /// a file that cannot be written.
    virtual void finish() = 0;
};

}  // namespace partita::search
