// SPDX-License-Identifier: Apache-2.0
//
// verify() proves a plan legal for a problem, or says exactly why not. It trusts nothing in the
// plan: it lowers the strategy again, replays the order and recomputes every prediction.
#pragma once

#include <string>
#include <vector>

#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"

namespace partita::plan {

struct VerifyOptions {
    bool ignore_digests = false;  ///< --ignore-digest: predictions are then not compared either
    /// Prices, and what follows from them, may be others than the plan's: who runs it may ask what
    /// newer ones predict. Its tasks are the plan's by any prices.
    bool ignore_costs = false;

    [[nodiscard]] bool same_costs() const { return !ignore_digests && !ignore_costs; }
};
/// What is wrong, one sentence each, in a fixed order; empty = legal. Checked: digests of model,
/// machine, costs and task graph; every op placed once on an allowed device, groups together;
/// degrees legal; the order a permutation that respects dependencies (so that dependencies plus
/// all queues are acyclic); memory within capacity; value, busy times and memory as predicted.
std::vector<std::string> verify(const Problem& problem, const Plan& plan,
                                const VerifyOptions& options = {});

}  // namespace partita::plan
