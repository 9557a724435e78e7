// SPDX-License-Identifier: Apache-2.0
//
// Lowering: (problem, strategy) -> TaskGraph, a pure function. What prices decide (which
// collectives are fused, and by which algorithms they go) a plan says itself, so that its tasks
// outlive its prices.
//
//     inference   forward of every part of every op, in every micro-batch if the op depends on the
//                 batch; one reshard per (tensor, layout that somebody needs)
//     training    + loss at the outputs, backward of every op on a gradient path, gradients resharded
//                   to where their tensor lies and added where it has several consumers, update of
//                   every parameter after all its readers
//
// Whole ops on two devices:
//
//     device 0   F(a) ─────────────── B(a)       a's result goes to device 1 once, however many
//                   ╲copy        copy╱           consumers it has there; their gradients are added
//     device 1       F(b) F(c) B(c) B(b) +       there and come back as one copy
//
// Source ops run nothing: inputs lie on their device at time 0, resident tensors (constants, and in
// inference parameters) wherever they are used. Source: RULES.md 10-17.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "plan/tensors/lowering_cache.h"

namespace partita::plan {

class PlannedCollectives;

/// `strategy` must be legal: find_fault() of config_legality.h.
TaskGraph lower(const Problem& problem, const Strategy& strategy);
/// The same; quicker from the second strategy on. The cache is one of this problem.
TaskGraph lower(const Problem& problem, const Strategy& strategy, LoweringCache& cache);
/// The tasks of one device of each class (plan/folding/folding.h); of all devices where no two are
/// of one class.
TaskGraph lower_folded(const Problem& problem, const Strategy& strategy);
TaskGraph lower_folded(const Problem& problem, const Strategy& strategy, LoweringCache& cache);
/// Has it two devices of one class, whatever folds otherwise?
bool folds(const Problem& problem, const Strategy& strategy);
/// With the collectives of a plan, whatever the prices of this problem would choose.
TaskGraph lower(const Problem& problem, const Strategy& strategy,
                const PlannedCollectives& planned);

}  // namespace partita::plan
