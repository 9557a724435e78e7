// SPDX-License-Identifier: Apache-2.0
//
// A lower bound for the throughput of given costs that counts what must be sent: targets above a
// bound that is known, each asked of a small branch and bound
// (search/max_load/branch_and_bound/load_tree.h), in steps that grow while they are proven and
// shrink where that takes too long.
//
// Time: half a second at most, on any graph. Deterministic: counts operations, not seconds.
#pragma once

#include "base/units.h"
#include "plan/problem/problem.h"

namespace partita::search {

/// Picoseconds, at least `known`. `problem` has given costs and asks for throughput.
Time load_bound(const plan::Problem& problem, Time known);

}  // namespace partita::search
