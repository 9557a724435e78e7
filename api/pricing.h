// SPDX-License-Identifier: Apache-2.0
//
// What a plan file means at the prices of a problem.
#pragma once

#include "plan/evaluation/priced.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::api {

/// CPU devices share the host's memory, whatever a plan grants each: is there enough?
bool fits_host(const plan::Problem& problem, const plan::Evaluation& evaluation);

/// False for given costs, whose objectives are formulas over ops.
bool has_timeline(const plan::Problem& problem);

/// Runs the plan's tasks in its order, by the prices of the problem, whatever they are. Throws
/// InputError when it is no order of these tasks, as may happen on another machine. Plans of given
/// costs, and folded ones, name a scheduler instead; of folded ones `listed` says which tasks.
plan::Priced price_as_planned(const plan::Problem& problem, const plan::Strategy& strategy,
                              const plan::Plan& plan,
                              plan::Listed listed = plan::Listed::folded_if_many);

}  // namespace partita::api
