// SPDX-License-Identifier: Apache-2.0
#include <partita/search.h>

#include <atomic>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "api/framework.h"
#include "api/impl.h"
#include "api/learned_library.h"
#include "api/measured_reward.h"
#include "api/names.h"
#include "api/option_table.h"
#include "api/plan_options.h"
#include "api/request.h"
#include "api/runtime_library.h"
#include "base/error.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"

namespace partita {
namespace {

Progress to_public(const search::Progress& progress) {
    return {.evaluations = progress.evaluations,
            .best = progress.best,
            .measured = progress.measured,
            .overflow = progress.overflow,
            .lower_bound = progress.lower_bound,
            .elapsed = progress.elapsed,
            .searcher = progress.searcher,
            .detail = progress.detail};
}

SearchResult to_public(const Model& model, const plan::Problem& problem, const api::Costs& costs,
                       search::SearchResult found, plan::Listed listed) {
    SearchResult result{.status = api::to_public(found.status),
                        .best = std::nullopt,
                        .shortage = found.shortage,
                        .lower_bound = found.lower_bound,
                        .gap = found.gap,
                        .measured = found.measured,
                        .limited_by = found.limited_by,
                        .numerical_bound = std::nullopt,
                        .searcher = found.searcher,
                        .evaluations = found.evaluations,
                        .elapsed = found.elapsed,
                        .baselines = {}};
    if (const auto& bound = found.numerical_bound) {
        result.numerical_bound =
            NumericalBound{.value = bound->value, .gap = bound->gap, .by = bound->by};
    }
    for (const search::Baseline& baseline : found.baselines) {
        result.baselines.push_back({baseline.name, baseline.configuration, baseline.value});
    }
    if (found.has_plan()) {
        const plan::Priced priced = plan::price(problem, found.strategy, found.scheduler, listed,
                                                std::exchange(found.folded_tasks, std::nullopt));
        result.best = Plan(std::make_shared<const Plan::Impl>(
            Plan::Impl{api::make_plan(model.impl().loaded, problem, found, priced, costs)}));
    }
    return result;
}

plan::PlannedConfig planned(const std::vector<FactorDegree>& degrees,
                            const std::vector<int>& devices) {
    plan::PlannedConfig config{.degrees = {}, .devices = plan::DeviceSet::list(devices)};
    for (const FactorDegree& degree : degrees) {
        config.degrees.push_back({degree.factor, degree.degree});
    }
    return config;
}

plan::PlannedOp planned(const OpPlan& op) {
    plan::PlannedOp planned_op{.name = op.name,
                               .type = op.type,
                               .config = planned(op.degrees, op.devices),
                               .update = {},
                               .recompute = api::to_internal(op.recompute)};
    if (!op.update_devices.empty()) {
        planned_op.update.config = planned(op.update_degrees, op.update_devices);
    }
    return planned_op;
}

}  // namespace

std::string_view to_text(Status status) {
    switch (status) {
    case Status::optimal: return "optimal";
    case Status::found: return "found";
    case Status::budget_exhausted: return "budget_exhausted";
    case Status::none_found: return "none_found";
    case Status::infeasible: return "infeasible";
    }
    throw UsageError("Status: the value is none of its names. Use one of those.");
}

const Plan& SearchResult::plan() const {
    if (best) return *best;
    const bool none_found = status == Status::none_found;
    throw UsageError(search::why_no_plan(
        none_found ? search::Status::none_found : search::Status::infeasible, shortage));
}

SearchResult find_plan(const Model& model, const Machine& machine, const PlanOptions& given) {
    api::check_options(given);
    const PlanOptions options = api::with_framework(given);
    api::check_form(options, options.start.has_value());
    search::EngineOptions engine = api::engine_options(options);
    api::check_learning(options, engine.searchers);
    const rl::LearnOptions learn = api::learn_options(options);
    api::check_outputs(api::outputs_of(learn), {options.fix, options.profile, learn.load_policy});
    const cost::Machine& hardware = machine.impl().machine;
    const api::Costs costs = api::load_costs(options.profile, hardware);
    const plan::Problem problem =
        api::make_problem(model.impl().loaded, hardware,
                          api::problem_options(options, model.impl().loaded, hardware), costs);
    if (options.start) engine.start = plan::strategy_of(options.start->impl().plan, problem);
    if (options.progress) {
        engine.progress = [&options](const search::Progress& progress) {
            options.progress(to_public(progress));
        };
    }
    std::optional<api::MeasuredReward> reward;
    if (options.reward == Reward::measured) {
        reward.emplace(api::load_runtime(), problem, model.impl().loaded.source.get(),
                       engine.scheduler);
        engine.measure = [&reward](const plan::Strategy& each) { return reward->time(each); };
    }
    const auto learned = api::load_learned(learn, engine.searchers);
    engine.learned = learned.get();
    std::atomic<bool> cancelled{false};
    const std::stop_callback on_stop(options.stop, [&cancelled] { cancelled.store(true); });
    engine.cancelled = &cancelled;
    return to_public(model, problem, costs, search::search(problem, std::move(engine)),
                     api::listed(options));
}

Plan price(const Model& model, const Machine& machine, const std::vector<OpPlan>& ops,
           const PlanOptions& given) {
    api::check_options(given);
    const PlanOptions options = api::with_framework(given);
    const cost::Machine& hardware = machine.impl().machine;
    const api::Costs costs = api::load_costs(options.profile, hardware);
    const plan::Problem problem =
        api::make_problem(model.impl().loaded, hardware,
                          api::problem_options(options, model.impl().loaded, hardware), costs);
    plan::Plan written{.source = "strategy", .policy = problem.policy()};
    for (const OpPlan& op : ops) written.ops.push_back(planned(op));
    search::SearchResult result{.status = search::Status::found,
                                .strategy = plan::strategy_of(written, problem),
                                .searcher = "given",
                                .scheduler = api::engine_options(options).scheduler};
    const plan::Priced priced =
        plan::price(problem, result.strategy, result.scheduler, api::listed(options));
    plan::Plan priced_plan = api::make_plan(model.impl().loaded, problem, result, priced, costs);
    priced_plan.lower_bound.reset();  // nothing was searched
    return Plan(std::make_shared<const Plan::Impl>(Plan::Impl{std::move(priced_plan)}));
}

std::vector<SearcherInfo> searchers() {
    std::vector<SearcherInfo> infos;
    for (const search::SearcherRow& row : search::searcher_table()) {
        infos.push_back({std::string(row.name), std::string(row.summary)});
    }
    return infos;
}

}  // namespace partita
