// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/exact/milp_bound.h"

#include <algorithm>
#include <cmath>

#include "search/max_load/exact/highs.h"
#include "search/max_load/exact/load_milp.h"

namespace partita::search {

namespace {

constexpr std::size_t kMostEntries = 2'000'000;
constexpr std::int64_t kPerIteration = 30'000;  ///< operations, about
constexpr std::int64_t kPerEntry = 5;           ///< the same, of each iteration

}  // namespace

bool fits_milp(const LoadProblem& problem) {
    return LoadMilp::entries(problem) <= kMostEntries;
}

std::int64_t milp_iterations(const LoadProblem& problem, std::int64_t operations) {
    const auto entries = static_cast<std::int64_t>(LoadMilp::entries(problem));
    return operations / (kPerIteration + kPerEntry * entries) + 1;
}

MilpBound milp_bound(const LoadProblem& problem, std::int64_t bound, std::int64_t value,
                     const MilpOptions& options) {
    const std::int64_t asked = value - std::max<std::int64_t>(1, value / kMilpBetter);
    MilpBound answer{.bound = bound, .devices = std::nullopt, .result = {}};
    if (asked <= 0) return answer;
    const LoadMilp milp(problem, asked);
    MilpOptions given = options;
    given.heuristics = 0;  // local search has looked already
    answer.result = solve_with_highs(milp.program(), given);
    const MilpResult& result = answer.result;
    if (!result.x.empty()) answer.devices = milp.devices(result.x);
    if (result.status == MilpStatus::failed) return answer;
    const double said = milp.load(std::clamp(result.bound, 0.0, 1.0));
    const std::int64_t claimed = static_cast<std::int64_t>(said) - value / kMilpMargin - 1;
    answer.bound = std::max(bound, claimed);
    return answer;
}

}  // namespace partita::search
