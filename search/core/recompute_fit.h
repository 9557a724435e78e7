// SPDX-License-Identifier: Apache-2.0
//
// Where a strategy does not fit and the search may choose what is recomputed: as little of that as
// makes it fit.
//
//     nothing ─▶ attention of all blocks ─▶ all of all blocks        the first that fits
//     then, of each stage, as many of its blocks as need it          found by bisection, in all stages at once
//
// Blocks in front go first: when the backward begins at the end of a stage, what they recompute is
// not there yet, and when it comes, what the blocks behind them kept is gone.
//
// Optimal: no; per stage as few as any such choice, where fewer never need less memory.
// Source: the methods "uniform" and "block" of Megatron-LM's --recompute-method.
#pragma once

#include <optional>

#include "plan/evaluation/evaluator.h"
#include "plan/strategy/strategy.h"
#include "search/core/engine.h"

namespace partita::search {

struct FittedStrategy {
    plan::Strategy strategy;
    plan::Evaluation evaluation;
};

/// Evaluates the strategy, and those that recompute more while it does not fit. Of these the
/// quickest that fits (of equal ones the last), or the strategy itself. nullopt: the budget was
/// spent before.
std::optional<FittedStrategy> evaluate_and_recompute(Engine& engine, plan::Strategy strategy);

}  // namespace partita::search
