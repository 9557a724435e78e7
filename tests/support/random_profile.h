// SPDX-License-Identifier: Apache-2.0
//
// Measured times for a problem, as wild as no machine would be: each between a 32nd and 32 times
// what the roofline says, and without any order, so that parts may take longer than the whole.
#pragma once

#include "cost/profile/profile.h"
#include "plan/problem/problem.h"
#include "search/support/random.h"

namespace partita::support {

/// Of random parts of most ops, in random phases, of work on tensors, of copies and of collectives,
/// on every kind of device; some are left out.
cost::Profile random_profile(search::Random& random, const plan::Problem& problem);

/// The problem with these costs. Graph and machine are those of `problem`.
plan::Problem with_profile(const plan::Problem& problem, const cost::Profile& profile,
                           plan::ProblemOptions options);

}  // namespace partita::support
