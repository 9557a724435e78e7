// SPDX-License-Identifier: Apache-2.0
//
// Small programs that move data between the devices of a machine, by kind and size: their tasks are
// the copies and collectives that a profile knows of every size, whatever sizes a model needs.
//
//     x [r, c] ─▶ a ─▶ b      all-gather     a in shards of rows, b everywhere
//                             all-to-all     a in shards of rows, b in shards of columns
//                             all-reduce     a sums over rows that are in shards, b everywhere
//                             ...
//
// One program holds such a chain for every size. Which of them become collectives, lowering
// decides; it decides alike in plans.
#pragma once

#include "api/profiler.h"
#include "cost/machine/machine.h"

namespace partita::api {

/// For 2 devices and all powers of two that the machine has, and for all of its devices.
void measure_transfers(Profiler& profiler, const cost::Machine& machine);

}  // namespace partita::api
