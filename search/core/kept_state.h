// SPDX-License-Identifier: Apache-2.0
//
// What a strategy keeps from one iteration to the next, without lowering it: weights and the state of
// the optimizer, in the parts that devices have of them. Less than it needs: no gradients, nothing
// that is computed. A look at each parameter, where an evaluation on a thousand devices takes seconds
// to minutes.
//
// Devices that keep the same parameters hold, on average, the sum of
//
//     bytes of the weights / parts of the parameter's config + bytes of its state / parts of its update
//
// and one of them at least that.
#pragma once

#include "base/units.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

/// By how much it is more than some device has; 0: it may fit.
Bytes kept_beyond_memory(const plan::Problem& problem, const plan::Strategy& strategy);

}  // namespace partita::search
