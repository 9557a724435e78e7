// SPDX-License-Identifier: Apache-2.0
//
// What a well-known strategy is called when a plan is compared with it: how many devices, what is
// sharded, how the batch is cut.
//
//     8 devices, ZeRO 2, 4 micro-batches
#pragma once

#include <string>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// ZeRO levels as RULES.md 17 has them: 1 shards updates, 2 gradients too, 3 parameters too. Of
/// mixtures the highest.
std::string configuration_of(const plan::Problem& problem, const plan::Strategy& strategy);

}  // namespace partita::search
