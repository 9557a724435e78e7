// SPDX-License-Identifier: Apache-2.0
//
// The same plan where something is better: which would help most?
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "cli/planned.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"

namespace partita::cli {

struct Help {
    std::string what;  ///< "bandwidth between nodes x 2"
    Time value;        ///< of the same strategy, by the same scheduler
    double ratio = 1;  ///< to its value as it is, by that scheduler
};

/// Twice the figures of the machine that it has, host's launches in no time, twice the micro-batches; those
/// that the plan can have, the best first. Nothing of given costs.
std::vector<Help> what_would_help(const Planned& planned, const plan::Strategy& strategy,
                                  plan::Scheduler scheduler);

}  // namespace partita::cli
