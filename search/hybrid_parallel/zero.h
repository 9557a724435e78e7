// SPDX-License-Identifier: Apache-2.0
//
// ZeRO: what replicas of a parameter need not each keep lies in shards over them (levels:
// plan/strategy/zero_level.h).
//
// Replicas are those of the strategy: in a grid those of the groups that share the batch, and where
// the devices of a group repeat an op, these too. What has no dim that they can share stays whole.
//
// Source: Rajbhandari et al., ZeRO, SC 2020, section 5; RULES.md 17.
#pragma once

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/strategy/zero_level.h"

namespace partita::search {

using plan::ZeroLevel;

/// The level of a whole plan: the highest of its parameters.
ZeroLevel zero_level(const plan::Problem& problem, const plan::Strategy& strategy);

/// For every trained parameter of a strategy in which none is in shards.
void apply_zero(const plan::Problem& problem, ZeroLevel level, plan::Strategy& strategy);

/// Gradients of several micro-batches are reduced each for itself, or added up where they arise and reduced
/// once. Whatever the level: with shards of optimizer state alone, the one is level 2 and the other 1.
void apply_reduction(const plan::Problem& problem, bool each, plan::Strategy& strategy);

}  // namespace partita::search
