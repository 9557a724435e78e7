// SPDX-License-Identifier: Apache-2.0
//
// What a MILP solver says of a load problem when the best known placement has a largest load of
// `value`:
//
//     ├───────────●──────────────────────────┼┼───────┤
//               bound                  claim ┘└ asked value        asked: value less a 1e7th
//                                                                  claim: what is said, less a 1e6th of value
//
// It is asked for a placement at least a 1e7th better. Its tolerance is a 1e9th of what is asked
// (rows, bounds, whole numbers), sums of a thousand doubles err by a 1e12th, and what is claimed is
// a 1e6th less than what it says: a margin of a thousand tolerances. It remains a claim. A solver's
// presolve, cuts and prunings are all in floating point and cannot be checked from outside; what is
// proven here in integers (search/max_load/branch_and_bound/load_tree.h) is kept apart from it.
//
// Threads: one. Deterministic where no clock ends it (search/max_load/exact/highs.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "search/max_load/exact/milp.h"
#include "search/max_load/model/load_graph.h"

namespace partita::search {

/// Shares of the value, as above.
inline constexpr std::int64_t kMilpBetter = 10'000'000;
inline constexpr std::int64_t kMilpMargin = 1'000'000;

struct MilpBound {
    std::int64_t bound = 0;  ///< claimed: no placement is below; picoseconds, less than `value`
    /// Device of each vertex, of the best placement found; nullopt: none as good as asked.
    std::optional<std::vector<std::int32_t>> devices;
    MilpResult result;  ///< how it ended
};

/// Larger problems are not asked: nothing would come of it in reasonable time.
[[nodiscard]] bool fits_milp(const LoadProblem& problem);

/// Simplex iterations that take about so many ns on that problem.
[[nodiscard]] std::int64_t milp_iterations(const LoadProblem& problem, std::int64_t operations);

/// `bound`: proven, at least 0; `value` > bound. Asks HiGHS, without heuristics.
[[nodiscard]] MilpBound milp_bound(const LoadProblem& problem, std::int64_t bound,
                                   std::int64_t value, const MilpOptions& options);

}  // namespace partita::search
