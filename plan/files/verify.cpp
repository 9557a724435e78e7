// SPDX-License-Identifier: Apache-2.0
#include "plan/files/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "plan/evaluation/max_load.h"
#include "plan/evaluation/priced.h"
#include "plan/lowering/lower.h"

namespace partita::plan {

namespace {

using Findings = std::vector<std::string>;

void check_digest(std::string_view what, const std::string& planned, const std::string& actual,
                  Findings& findings) {
    if (planned == actual) return;
    findings.push_back(
        fmt::format("{}: the plan was made for digest {}, this one has {}", what, planned, actual));
}

void check_costs(const Problem& problem, const Plan& plan, Findings& findings) {
    const std::size_t before = findings.size();
    check_digest("costs", plan.costs_digest, problem.costs_digest(), findings);
    const std::string named = plan.cost_sources.empty() ? "" : plan.cost_sources.front();
    const std::string own = problem.prices().costs().name();
    if (findings.size() == before || named == own) return;
    findings.back() += fmt::format(
        "; its costs come from '{}', these from '{}'. Give the same --profile as to the plan, or "
        "none if it had none",
        fmt::join(plan.cost_sources, "', '"), own);
}

void check_choices(const Problem& problem, const Plan& plan, Findings& findings) {
    if (plan.mode != problem.mode()) {
        findings.push_back(fmt::format("mode: the plan is for {}, not for {}", name_of(plan.mode),
                                       name_of(problem.mode())));
    }
    if (plan.objective != problem.objective()) {
        findings.push_back(fmt::format("objective: the plan is for {}, not for {}",
                                       name_of(plan.objective), name_of(problem.objective())));
    }
    if (!problem.batch().allows(plan.policy)) {
        findings.emplace_back("policy: the plan's differs from the problem's");
    }
}

std::string text_of(const PlannedCollective& collective) {
    const std::string_view protocol = cost::name_of(collective.protocol);
    return fmt::format("'{}' by {}{}{}", collective.task, cost::name_of(collective.algorithm),
                       protocol.empty() ? "" : " with ", protocol);
}

/// Task, algorithm and protocol of each collective, as lowering has them.
void check_collectives(const Problem& problem, const Plan& plan, const TaskGraph& graph,
                       Findings& findings) {
    const std::vector<PlannedCollective> actual = collectives_of(problem, graph);
    for (std::size_t i = 0; i < std::max(actual.size(), plan.collectives.size()); ++i) {
        if (i < actual.size() && i < plan.collectives.size() && actual[i] == plan.collectives[i]) {
            continue;
        }
        findings.push_back(
            fmt::format("collectives[{}]: the plan has {}, the strategy needs {}", i,
                        i < plan.collectives.size() ? text_of(plan.collectives[i]) : "nothing more",
                        i < actual.size() ? text_of(actual[i]) : "nothing more"));
        return;
    }
}

void check_memory(const Problem& problem, const std::vector<DeviceUse>& devices,
                  Findings& findings) {
    for (std::size_t d = 0; d < devices.size(); ++d) {
        const int device = static_cast<int>(d);
        const Bytes capacity = problem.constraints().memory_capacity(device);
        if (devices[d].memory <= capacity) continue;
        findings.push_back(fmt::format("device '{}': needs {} bytes, has {} ({} too many)",
                                       problem.machine().device(device).name,
                                       devices[d].memory.raw(), capacity.raw(),
                                       (devices[d].memory - capacity).raw()));
    }
}

void check_prediction(const Plan& plan, const Evaluation& actual, Findings& findings) {
    if (plan.value != actual.value) {
        findings.push_back(fmt::format("prediction: value_ps is {}, the order gives {}",
                                       plan.value.raw(), actual.value.raw()));
    }
    if (plan.lower_bound && *plan.lower_bound > plan.value) {
        findings.push_back(fmt::format("prediction: lower_bound_ps {} is above value_ps {}",
                                       plan.lower_bound->raw(), plan.value.raw()));
    }
    if (plan.devices != actual.devices) {
        findings.emplace_back("prediction: devices differ from what the order gives");
    }
}

/// Nothing when the plan names none.
std::optional<Scheduler> scheduler_of(const Plan& plan, Findings& findings) {
    const auto scheduler = scheduler_from_name(plan.scheduler);
    if (!scheduler) {
        findings.push_back(
            fmt::format("search: scheduler is fifo, rank, pct or msr, not '{}'", plan.scheduler));
    }
    return scheduler;
}

/// What plans that list no tasks may not have, either.
void check_lists_nothing(const Plan& plan, std::string_view whose, Findings& findings) {
    if (plan.commit_order.empty()) return;
    findings.push_back(fmt::format("order: a {} plan names a scheduler and lists no order", whose));
}

/// Value, busy times and memory; nothing when they cannot be told.
using Found = std::optional<Evaluation>;

/// Nobody executes a workload: its plan has no order, the named scheduler gives it again.
Found evaluate_workload(const Problem& problem, const Plan& plan, const Strategy& strategy,
                        Findings& findings) {
    check_lists_nothing(plan, "workload's", findings);
    const auto scheduler = scheduler_of(plan, findings);
    if (!scheduler) return std::nullopt;
    return make_evaluator(problem, *scheduler)->evaluate(strategy);
}

/// Prices say which devices are of one class, so that the plan lists nothing of them.
Found evaluate_folded(const Problem& problem, const Plan& plan, const Strategy& strategy,
                      const VerifyOptions& options, Findings& findings) {
    check_lists_nothing(plan, "folded", findings);
    if (!plan.collectives.empty()) findings.emplace_back("collectives: a folded plan lists none");
    const auto scheduler = scheduler_of(plan, findings);
    if (!scheduler) return std::nullopt;
    Priced priced = price(problem, strategy, *scheduler, Listed::folded_if_many);
    if (options.same_costs()) {
        if (!priced.tasks.is_folded())
            findings.emplace_back("order: the plan is folded, and its tasks are few or all differ");
        check_digest("task graph", plan.task_graph_digest, digest(priced.tasks), findings);
    }
    return std::move(priced.evaluation);
}

/// Of the plan's own order.
Found evaluate_listed(const Problem& problem, const Plan& plan, const Strategy& strategy,
                      const VerifyOptions& options, Findings& findings) {
    TaskGraph graph =
        options.ignore_costs ? lower_as_planned(problem, strategy, plan) : lower(problem, strategy);
    // On another machine the plan's names may be those of no device.
    if (!options.ignore_digests || !options.ignore_costs)
        check_collectives(problem, plan, graph, findings);
    if (options.same_costs())
        check_digest("task graph", plan.task_graph_digest, digest(graph), findings);
    const std::size_t tasks = graph.size();
    std::optional<Priced> priced = price_in_order(problem, std::move(graph), plan.commit_order);
    if (priced) return std::move(priced->evaluation);
    findings.push_back(fmt::format(
        "order: commit is no order of the {} tasks that respects their dependencies", tasks));
    return std::nullopt;
}

}  // namespace

std::vector<std::string> verify(const Problem& problem, const Plan& plan,
                                const VerifyOptions& options) {
    Findings findings;
    if (!options.ignore_digests) {
        check_digest("model", plan.model_digest, problem.model_digest(), findings);
        check_digest("machine", plan.machine_digest, "sha256:" + cost::digest(problem.machine()),
                     findings);
        if (!options.ignore_costs) check_costs(problem, plan, findings);
    }
    check_choices(problem, plan, findings);
    std::optional<Strategy> strategy;
    try {
        strategy = strategy_of(plan, problem);
    } catch (const InputError& error) {
        findings.emplace_back(error.what());
        return findings;
    }
    const Found evaluation =
        has_given_costs(problem) ? evaluate_workload(problem, plan, *strategy, findings)
        : plan.folded            ? evaluate_folded(problem, plan, *strategy, options, findings)
                                 : evaluate_listed(problem, plan, *strategy, options, findings);
    if (!evaluation) return findings;
    check_memory(problem, evaluation->devices, findings);
    if (options.same_costs()) check_prediction(plan, *evaluation, findings);
    return findings;
}

}  // namespace partita::plan
