// SPDX-License-Identifier: Apache-2.0
//
// What people would do without a search, tuned: all on one device, data parallelism, and a grid of
// data, tensor and pipeline parallelism, each the best that its searcher finds alone.
//
// Time: some tens of evaluations each; a baseline that would take longer than the search is left
// out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "search/core/engine.h"
#include "search/core/evaluator_pool.h"

namespace partita::search {

/// With any number of micro-batches and any schedule, whatever was asked for of the plan.
struct Baseline {
    std::string name;           ///< of the searcher
    std::string configuration;  ///< e.g. "8 devices, ZeRO 2"
    /// Null: nothing fits, or pricing it would take longer than the search.
    std::optional<Time> value;
};

/// For a search that is over; the pool is its own. `alone`: name of the searcher that found its
/// best plan with nothing before it and no end of its budget, or "".
std::vector<Baseline> tuned_baselines(const Engine& search, EvaluatorPool& pool,
                                      std::string_view alone);

}  // namespace partita::search
