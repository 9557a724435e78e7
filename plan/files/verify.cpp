// SPDX-License-Identifier: Apache-2.0
#include "plan/files/verify.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.h"
#include "plan/evaluation/max_load.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"

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

/// Value, busy times and memory of the plan's own order; nothing when the order is no order.
std::optional<Evaluation> evaluate_order(const Problem& problem, const Plan& plan,
                                         const Strategy& strategy, const TaskGraph& graph,
                                         Findings& findings) {
    if (has_given_costs(problem)) {
        // Nobody executes a workload: its plan has no order, the named scheduler gives it again.
        const auto scheduler = scheduler_from_name(plan.scheduler);
        if (!plan.commit_order.empty() || !scheduler) {
            findings.emplace_back("order: a workload's plan names a scheduler and lists no order");
            return std::nullopt;
        }
        return make_evaluator(problem, *scheduler)->evaluate(strategy);
    }
    const std::optional<Timeline> timeline = replay(graph, plan.commit_order);
    if (!timeline) {
        findings.push_back(fmt::format(
            "order: commit is no order of the {} tasks that respects their dependencies",
            graph.size()));
        return std::nullopt;
    }
    Evaluation evaluation = evaluation_of(problem, graph, *timeline);
    if (problem.objective() == Objective::throughput) evaluation.value = busiest_resource(graph);
    return evaluation;
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
    const TaskGraph graph = options.ignore_costs ? lower_as_planned(problem, *strategy, plan)
                                                 : lower(problem, *strategy);
    const bool same_costs = !options.ignore_digests && !options.ignore_costs;
    // On another machine the plan's names may be those of no device.
    const bool has_names = !options.ignore_digests || !options.ignore_costs;
    if (has_names) check_collectives(problem, plan, graph, findings);
    if (same_costs) {
        check_digest("task graph", plan.task_graph_digest, digest(graph), findings);
    }
    const auto evaluation = evaluate_order(problem, plan, *strategy, graph, findings);
    if (!evaluation) return findings;
    check_memory(problem, evaluation->devices, findings);
    if (same_costs) check_prediction(plan, *evaluation, findings);
    return findings;
}

}  // namespace partita::plan
