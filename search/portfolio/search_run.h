// SPDX-License-Identifier: Apache-2.0
//
// A search: groups and lower bound, then searchers one after the other within one budget
// (engine.h), then what others would do without a search, and the result.
//
//     start (--import-plan) ──▶ searcher 1 ──▶ searcher 2 ──▶ ... ──▶ best of all ──▶ baselines
//
// With EngineOptions::default_budget searches end by themselves, with the same plan on every host,
// and a guard of 60 s cuts those that do not, which is noted; where one of the searchers is endless
// there are 10 s for all.
//
// Optimal: when the value equals the lower bound, or a searcher proves it.
// Ends: when all searchers have ended, the value equals the bound, or the budget is spent.
// Baselines are priced beside the search, outside count and budget.
// Threads: one that calls; the search starts its own. Errors: UsageError for a start strategy that
// is not legal here, for an unknown searcher, and for one that learns without
// EngineOptions::learned; otherwise Status says what came of it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "plan/evaluation/evaluator.h"
#include "plan/files/plan_file.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/core/engine.h"
#include "search/core/searcher.h"
#include "search/portfolio/tuned_baselines.h"
#include "search/support/clock.h"

namespace partita::search {

struct SearchResult {
    Status status = Status::infeasible;  ///< never in_progress
    /// Complete, even when it does not fit; empty when no strategy can be legal (proven before any
    /// was tried: the constraints contradict, or there are more bytes to keep than memory).
    plan::Strategy strategy;
    plan::Evaluation evaluation;
    Time lower_bound;
    std::optional<double> gap;  ///< value / bound - 1; null when infeasible or undefined (bound 0)
    std::string limited_by;     ///< what the lower bound comes from (lower_bound.h)
    std::optional<NumericalBound> numerical_bound;  ///< where it is above the proven one
    std::string searcher;                           ///< the one that found the strategy
    std::string configuration;  ///< what that one calls it, "dp=2,tp=4"; "": nothing
    plan::Scheduler scheduler = plan::Scheduler::pct;
    std::uint64_t seed = 1;
    std::int64_t evaluations = 0;
    std::optional<double> acceptance_rate;  ///< of searchers that accept and reject
    std::optional<Time> measured;           ///< the strategy took that long, if it ran
    std::int64_t measurements = 0;          ///< strategies that ran
    Duration elapsed{0};
    bool improving = false;  ///< Engine::improved_since() the last quarter of its evaluations began
    std::vector<Baseline> baselines;
    bool contiguous = false;  ///< as asked for: bound and status are of contiguous plans
    /// Without a plan: what is short and by how much, one sentence without file name.
    std::string shortage;
    /// What searchers found out about other plans, a sentence each.
    std::vector<std::string> notes;
    /// Its tasks, where they are folded and somebody still had them: for plan::price().
    std::optional<plan::TaskGraph> folded_tasks;

    /// One that fits.
    [[nodiscard]] bool has_plan() const {
        return status != Status::infeasible && status != Status::none_found;
    }
};

/// Why a result has no plan, for people: "infeasible: ..." where nothing can fit, or that the
/// budget ran out first.
std::string why_no_plan(Status status, std::string_view shortage);

/// By the searchers that the options name.
SearchResult search(const plan::Problem& problem, EngineOptions options);
/// By these instead, which no table needs to know.
SearchResult search(const plan::Problem& problem, EngineOptions options,
                    std::span<const SearcherRow> searchers);

/// plan::make_plan() of a result that has a strategy.
plan::Plan make_plan(const plan::Problem& problem, const SearchResult& result);
/// The same of what is priced already, by the result's scheduler.
plan::Plan make_plan(const plan::Problem& problem, const SearchResult& result,
                     const plan::Priced& priced);

}  // namespace partita::search
