// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/search_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "plan/evaluation/evaluator.h"
#include "plan/legality/config_legality.h"
#include "search/bounds/lower_bound.h"
#include "search/coarsening/group_graph.h"
#include "search/coarsening/op_groups.h"
#include "search/core/evaluator_pool.h"
#include "search/portfolio/learned.h"
#include "search/portfolio/searcher_table.h"

namespace partita::search {

using plan::Evaluation;
using plan::Problem;
using plan::Strategy;

namespace {

std::string shortage_of(const Problem& problem, const Strategy& strategy,
                        const Evaluation& evaluation) {
    const std::string why = plan::why_infeasible(problem, strategy, evaluation);
    if (!evaluation.keeps_schedule) {
        return fmt::format(
            "no plan found keeps the schedule: in the closest one {}. Use another --schedule or "
            "number of micro-batches, or a searcher that proposes pipelines (expert, auto).",
            why);
    }
    const bool keeps_all = problem.mode() == plan::Mode::training &&
                           problem.policy().recompute == plan::Recompute::none;
    return fmt::format(
        "no plan found fits the memory: in the closest one {}, {} bytes short in all. Use more "
        "devices or devices with more memory, or a smaller batch{}.",
        why, evaluation.overflow.raw(),
        keeps_all ? ", or let layers compute activations once more (--recompute auto)" : "");
}

void check_start(const Problem& problem, const Strategy& start) {
    if (start.ops.size() != problem.graph().op_count()) {
        throw UsageError(fmt::format("the start plan places {} ops, the model has {}",
                                     start.ops.size(), problem.graph().op_count()));
    }
    const plan::Policy& policy = start.policy;
    if (!problem.batch().allows(policy)) {
        throw UsageError(fmt::format(
            "the start plan is for --micro-batches {} --schedule {} --optimizer {} --loss {} "
            "--gradient-sync {} --recompute {}{}{}{}{}, which is not what is asked for. Give "
            "--micro-batches and the others as it has them, or plan without --import-plan.",
            policy.micro_batches, to_text(policy.schedule), name_of(policy.optimizer),
            name_of(policy.loss), name_of(policy.gradient_sync), name_of(policy.recompute),
            policy.frozen.empty() ? "" : fmt::format(" --frozen {}", fmt::join(policy.frozen, ",")),
            policy.bucket_bytes
                ? fmt::format(" --bucket-bytes {}", plan::bucket_text(*policy.bucket_bytes))
                : "",
            policy.host_time.any() ? fmt::format(" --host-time {}", to_text(policy.host_time)) : "",
            policy.clip_norm > 0 || problem.policy().clip_norm > 0
                ? fmt::format(" --clip-norm {}", plan::clip_norm_text(policy.clip_norm))
                : ""));
    }
    if (const auto fault = plan::find_fault(problem, start)) {
        throw UsageError(
            fmt::format("the start plan is not allowed here: {}. Plan without "
                        "--import-plan, or change the constraints.",
                        *fault));
    }
}

void check(const Problem& problem, const EngineOptions& options) {
    for (const std::string& name : options.searchers) parse_searchers(name);
    if (any_learned(options.searchers)) learned_searchers(options);
    if (options.start) check_start(problem, *options.start);
}

/// How long a search that nobody gave a budget may take.
struct DefaultLimits {
    std::optional<Duration> time_limit;  ///< to plan with
    std::optional<Duration> guard;       ///< to end with
};

DefaultLimits default_limits(std::span<const SearcherRow> searchers) {
    constexpr Duration kLimit = std::chrono::seconds(10);
    constexpr Duration kGuard = std::chrono::seconds(60);
    if (std::ranges::any_of(searchers, &SearcherRow::endless)) return {.time_limit = kLimit};
    return {.guard = kGuard};
}

Status take_turns(Engine& engine, std::span<const SearcherRow> searchers) {
    if (engine.options().start) {
        engine.set_searcher("import-plan");
        static_cast<void>(engine.evaluate(*engine.options().start));
    }
    bool cut_short = false;
    for (std::size_t i = 0; i < searchers.size(); ++i) {
        engine.begin_turn(i, searchers.size());
        const Status status = engine.run(searchers[i]);
        if (status == Status::optimal) return status;
        cut_short = cut_short || status == Status::budget_exhausted;
    }
    if (engine.proven()) return Status::optimal;
    return cut_short ? Status::budget_exhausted : Status::found;
}

/// A plan that is below it refutes it.
void compare_numerical_bound(const Engine& engine, SearchResult& result) {
    const auto& bound = engine.numerical_bound();
    const Time value = result.evaluation.value;
    if (!bound || bound->value <= engine.lower_bound()) return;
    if (result.evaluation.feasible() && value < bound->value) {
        result.notes.push_back(fmt::format("{} says that no plan is below {}, which this plan is.",
                                           bound->by, to_text(bound->value)));
        return;
    }
    result.numerical_bound = bound;
    if (result.evaluation.feasible()) result.numerical_bound->gap = value / bound->value - 1;
}

/// What the bound says of the plan. A plan below it is a bug of the bound's.
void compare_bound(const Problem& problem, const Engine& engine, SearchResult& result) {
    const Evaluation& found = result.evaluation;
    if (found.feasible() && found.value < result.lower_bound) {
        throw std::logic_error(fmt::format(
            "the lower bound {} ps ({}) is above a plan of {} ps that was found by {}",
            result.lower_bound.raw(), result.limited_by, found.value.raw(), result.searcher));
    }
    if (!found.feasible()) {
        result.status =
            result.status == Status::budget_exhausted ? Status::none_found : Status::infeasible;
        result.shortage = shortage_of(problem, result.strategy, found);
    } else if (result.lower_bound > Time{0}) {
        result.gap = found.value / result.lower_bound - 1;
    } else if (found.value == Time{0}) {
        result.gap = 0.0;
    }
    compare_numerical_bound(engine, result);
}

/// What the engine knows, without a plan.
SearchResult facts_of(const Engine& engine, Status status) {
    const EngineOptions& options = engine.options();
    SearchResult result;
    result.status = status;
    result.lower_bound = engine.bound().value;
    result.limited_by = engine.bound().limited_by;
    result.contiguous = options.contiguous;
    result.scheduler = options.scheduler;
    result.seed = options.seed;
    result.evaluations = engine.evaluations();
    result.notes = engine.notes();
    result.improving = engine.improved_since(engine.evaluations() - engine.evaluations() / 4);
    result.acceptance_rate = engine.acceptance_rate();
    result.measurements = engine.measurements();
    const std::optional<Duration> cut_after = engine.cut_after();
    if (status == Status::budget_exhausted && cut_after) {
        result.notes.push_back(fmt::format(
            "cut by the clock after {:.0f} s, so that another host may find another plan: "
            "--time-limit goes on, --evaluations {} gives the same everywhere.",
            std::chrono::duration<double>(*cut_after).count(), engine.evaluations()));
    }
    return result;
}

SearchResult infeasible(const EngineOptions& options, std::string why, Duration elapsed) {
    SearchResult result;
    result.status = Status::infeasible;
    result.scheduler = options.scheduler;
    result.seed = options.seed;
    result.shortage = std::move(why);
    result.elapsed = elapsed;
    return result;
}

}  // namespace

std::string why_no_plan(Status status, std::string_view shortage) {
    if (status == Status::infeasible) return fmt::format("infeasible: {}", shortage);
    return fmt::format(
        "the budget is spent: {} More time may help too: --time-limit or --evaluations.", shortage);
}

SearchResult search(const Problem& problem, EngineOptions options) {
    std::vector<SearcherRow> rows;
    check(problem, options);
    for (const std::string& name : options.searchers) rows.push_back(*find_searcher(name));
    return search(problem, std::move(options), rows);
}

SearchResult search(const Problem& problem, EngineOptions options,
                    std::span<const SearcherRow> searchers) {
    // What it recomputes is said op by op, and held against what is asked for now.
    if (options.start) options.start->policy.recompute = problem.policy().recompute;
    check(problem, options);
    const Clock& clock = options.clock != nullptr ? *options.clock : steady_clock();
    const Duration begin = clock.now();
    OpGroups groups = make_groups(problem, options.group ? Grouping::all : Grouping::required_only);
    if (!groups.conflict.empty()) {
        return infeasible(options, groups.conflict, clock.now() - begin);
    }
    const LowerBound bound = lower_bound(problem);
    if (!bound.shortage.empty()) return infeasible(options, bound.shortage, clock.now() - begin);
    const GroupGraph graph(problem, std::move(groups));

    const DefaultLimits limits =
        options.default_budget ? default_limits(searchers) : DefaultLimits{};
    if (limits.time_limit) options.time_limit = limits.time_limit;
    EvaluatorPool pool(problem, options.scheduler, options.threads);
    Engine engine(std::move(options), pool, graph, {bound.value, bound.limited_by}, begin);
    if (limits.guard) engine.set_guard(*limits.guard);
    const Status status = take_turns(engine, searchers);
    if (engine.learned()) learned_searchers(engine.options()).finish();

    SearchResult result = facts_of(engine, status);
    // The first evaluation is always granted, and every searcher asks for one.
    assert(engine.best_candidate() != nullptr);
    const Candidate& best = *engine.best_candidate();
    result.strategy = best.strategy;
    result.evaluation = best.evaluation;
    result.searcher = best.searcher;
    result.configuration = best.configuration;
    result.measured = best.measured;
    result.folded_tasks = pool.take_folded(best.strategy);
    result.elapsed = engine.elapsed();
    const bool alone = engine.options().searchers.size() == 1 && !engine.options().start &&
                       status != Status::budget_exhausted;
    result.baselines =
        tuned_baselines(engine, pool, alone ? engine.options().searchers[0] : std::string());
    compare_bound(problem, engine, result);
    return result;
}

plan::Plan make_plan(const Problem& problem, const SearchResult& result) {
    return make_plan(
        problem, result,
        plan::price(problem, result.strategy, result.scheduler, plan::Listed::folded_if_many));
}

plan::Plan make_plan(const Problem& problem, const SearchResult& result,
                     const plan::Priced& priced) {
    return plan::make_plan(problem, result.strategy,
                           {.searcher = result.searcher,
                            .scheduler = result.scheduler,
                            .seed = result.seed,
                            .evaluations = result.evaluations,
                            .lower_bound = result.lower_bound},
                           priced);
}

}  // namespace partita::search
