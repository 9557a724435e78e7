// SPDX-License-Identifier: Apache-2.0
//
// ZeRO: what replicas of a parameter need not each keep lies in shards over them.
//
//     level        1  optimizer state    2  gradients too       3  the parameter too
//     gradients    add up over micro-    each micro-batch's     as 2
//                  batches, then are     are scattered
//                  scattered
//
// Replicas are those of the strategy: in a grid those of the groups that share the batch, and where
// the devices of a group repeat an op, these too. What has no dim that they can share stays whole.
//
// Source: Rajbhandari et al., ZeRO, SC 2020, section 5; RULES.md 17.
#pragma once

#include <cstdint>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::search {

enum class ZeroLevel : std::uint8_t { none, optimizer, gradients, parameters };

/// The level of a whole plan: the highest of its parameters. With one micro-batch gradients do not
/// add up, and level 1 is level 2.
ZeroLevel zero_level(const plan::Problem& problem, const plan::Strategy& strategy);

/// For every trained parameter of a strategy in which none is in shards.
void apply_zero(const plan::Problem& problem, ZeroLevel level, plan::Strategy& strategy);

}  // namespace partita::search
