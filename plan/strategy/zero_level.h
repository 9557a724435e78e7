// SPDX-License-Identifier: Apache-2.0
//
// ZeRO's levels by name: what replicas of a parameter do not each keep.
//
//     1  optimizer state; gradients add up over micro-batches where they arise
//     2  gradients too: each micro-batch's are scattered
//     3  the parameter too: it is fetched, dropped and fetched again
//
// With one micro-batch gradients do not add up, and level 1 is level 2.
// Source: Rajbhandari et al., ZeRO, SC 2020, section 5; RULES.md 17.
#pragma once

#include <cstdint>

#include "plan/strategy/strategy.h"

namespace partita::plan {

enum class ZeroLevel : std::uint8_t { none, optimizer, gradients, parameters };

/// Of one parameter.
inline ZeroLevel zero_level(const UpdateConfig& update, int micro_batches) {
    if (update.refetch) return ZeroLevel::parameters;
    if (update.update.devices.size() < 2 || update.update.axes.empty()) return ZeroLevel::none;
    return micro_batches > 1 && update.accumulate_locally ? ZeroLevel::optimizer
                                                          : ZeroLevel::gradients;
}

}  // namespace partita::plan
