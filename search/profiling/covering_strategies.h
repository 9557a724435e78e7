// SPDX-License-Identifier: Apache-2.0
//
// Strategies that between them run every part of every op that a search may propose: what has to be
// measured so that a profile prices all plans. In the n-th strategy each op has the n-th of its
// configs,
//
//     1    all ops whole, on the first device
//     2    conv1 n:2   conv2 n:2   gemm m:2   ...
//     3    conv1 h:2   conv2 h:2   gemm k:2   ...
//
// and whole where it has fewer. So as many strategies are needed as the op with most configs has,
// not as many as there are configs; and each part is measured among others, with caches and
// neighbours as they will be.
//
// Configs are those of the config table with one axis, and with two where that many devices need
// it, on the first of its device sets: which one it is changes nothing for the part.
//
// Deterministic. Threads: one. Errors: none.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// Each strategy is legal for the problem, with its policy.
std::vector<plan::Strategy> covering_strategies(const plan::Problem& problem);

/// Parameters, constants and inputs as their first reader needs them.
void place_sources(const plan::Problem& problem, plan::Strategy& strategy);

}  // namespace partita::search
