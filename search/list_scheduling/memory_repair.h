// SPDX-License-Identifier: Apache-2.0
//
// Makes a placement fit. Placers count bytes with GroupGraph's estimate; the evaluator knows the
// exact peak. Each round recomputes more where the search may choose that (recompute_fit.h), moves
// groups off the overfull devices, biggest first, until they should fit, each to the device with
// room that would finish first, and evaluates again. When kRepairRounds do not suffice, the groups
// are dealt out once more in topological order, each device filled to the same share of its memory,
// and repaired again.
//
// Optimal: no; it may fail where a fitting placement exists.
// Ends: when the placement fits, nothing can be moved, the rounds or the budget are used up.
#pragma once

#include "search/core/engine.h"

namespace partita::search {

inline constexpr int kRepairRounds = 8;

/// Evaluates `placement`, and while it does not fit, its repaired successors. The engine remembers
/// the best. Returns true when one fits.
bool evaluate_and_repair(Engine& engine, Placement placement);

}  // namespace partita::search
