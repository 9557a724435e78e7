// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::bench {

/// Whole ops on the first device, but for that share of them, which have a config drawn from all
/// that searches draw from. Sources lie where they are read first.
plan::Strategy random_splits(const plan::Problem& problem, double share, std::uint64_t seed);

}  // namespace partita::bench
