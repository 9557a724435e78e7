// SPDX-License-Identifier: Apache-2.0
#include "plan/files/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"
#include "plan/problem/loss_graph.h"

namespace partita::plan {

namespace {

PlannedConfig planned_config(const graph::OpRule& rule, const OpConfig& config) {
    PlannedConfig planned{.degrees = {}, .devices = config.devices};
    for (const Axis& axis : config.axes) {
        planned.degrees.push_back({name_of(rule, axis), axis.degree});
    }
    return planned;
}

PlannedUpdate planned_update(const graph::OpRule& rule, const UpdateConfig& update) {
    return {.config = planned_config(rule, update.update),
            .accumulate_locally = update.accumulate_locally,
            .refetch = update.refetch};
}

using Fault = std::optional<std::string>;

/// Reads the names of axes; nothing is wrong with them when there is no fault.
Fault read_config(const Problem& problem, graph::OpId op, const PlannedConfig& planned,
                  OpConfig& config) {
    config.devices = planned.devices;
    if (planned.degrees.empty()) return std::nullopt;
    if (Fault fault = find_split_fault(problem, op)) return fault;
    for (const PlannedAxis& named : planned.degrees) {
        const auto axis = axis_of(problem.facts().rule(op), named.factor, named.degree);
        if (!axis) return unknown_axis(named.factor);
        config.axes.push_back(*axis);
    }
    return std::nullopt;
}

Fault read_decision(const Problem& problem, graph::OpId op, const PlannedOp& planned,
                    OpDecision& decision) {
    const auto named = [&](std::string_view what, const std::string& fault) {
        return fmt::format("op '{}' ({}): {}{}", planned.name, planned.type, what, fault);
    };
    const PlannedUpdate& update = planned.update;
    decision.update.accumulate_locally = update.accumulate_locally;
    decision.update.refetch = update.refetch;
    decision.recompute = planned.recompute;
    if (const Fault fault = read_config(problem, op, planned.config, decision.config)) {
        return named("", *fault);
    }
    if (const Fault fault = read_config(problem, op, update.config, decision.update.update)) {
        return named("update: ", *fault);
    }
    return std::nullopt;
}

}  // namespace

Plan read_plan(const std::filesystem::path& file) {
    return parse_plan(read_text_file(file), file.filename().string());
}

Plan make_plan(const Problem& problem, const Strategy& strategy, const Provenance& provenance) {
    return make_plan(problem, strategy, provenance,
                     price(problem, strategy, provenance.scheduler, Listed::folded_if_many));
}

Plan make_plan(const Problem& problem, const Strategy& strategy, const Provenance& provenance,
               const Priced& priced) {
    Plan plan;
    plan.model_digest = problem.model_digest();
    plan.machine = problem.machine();
    plan.machine_digest = "sha256:" + cost::digest(problem.machine());
    plan.mode = problem.mode();
    plan.objective = problem.objective();
    plan.policy = strategy.policy;
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        const graph::Op& op = problem.graph().ops()[i];
        const graph::OpRule& rule = problem.facts().rule(graph::OpId(i));
        plan.ops.push_back({.name = op.name,
                            .type = op.type,
                            .config = planned_config(rule, strategy.ops[i].config),
                            .update = planned_update(rule, strategy.ops[i].update),
                            .recompute = strategy.ops[i].recompute});
    }
    plan.task_graph_digest = digest(priced.tasks);
    plan.folded = priced.tasks.is_folded();
    if (!plan.folded) {
        plan.collectives = collectives_of(problem, priced.tasks);
        if (priced.timeline) plan.commit_order = priced.timeline->commit_order;
    }
    plan.value = priced.evaluation.value;
    plan.devices = priced.evaluation.devices;
    plan.lower_bound = provenance.lower_bound;
    plan.costs_digest = problem.costs_digest();
    plan.cost_sources = {problem.prices().costs().name()};
    if (std::ranges::any_of(priced.tasks.tasks,
                            [](const Task& task) { return task.kind == TaskKind::collective; })) {
        plan.cost_sources.push_back("collectives: " + problem.transfers().collectives().name());
    }
    plan.searcher = provenance.searcher;
    plan.scheduler = name_of(provenance.scheduler);
    plan.seed = provenance.seed;
    plan.evaluations = provenance.evaluations;
    return plan;
}

TaskGraph lower_as_planned(const Problem& problem, const Strategy& strategy, const Plan& plan) {
    const cost::Machine& machine = plan.machine ? *plan.machine : problem.machine();
    return lower(problem, strategy, PlannedCollectives(problem.graph(), machine, plan.collectives));
}

Strategy strategy_of(const Plan& plan, const Problem& problem) {
    const graph::OpGraph& graph = problem.graph();
    std::unordered_map<std::string_view, std::size_t> ids;  // looked up only, never iterated
    for (std::size_t i = 0; i < graph.op_count(); ++i) ids.emplace(graph.ops()[i].name, i);
    std::vector<const PlannedOp*> planned_ops(graph.op_count(), nullptr);
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        const PlannedOp& planned = plan.ops[i];
        const auto where = [&] {
            return fmt::format("{}: ops[{}] '{}'", plan.source, i, planned.name);
        };
        const auto at = ids.find(planned.name);
        if (at == ids.end()) {
            // Of the plan's loss, where there is another one, or none.
            if (is_added_by_loss(graph, planned.name, planned.type)) continue;
            throw InputError(where() + ": the model has no op of this name. Plan again.");
        }
        const graph::Op& op = graph.ops()[at->second];
        if (op.type != planned.type) {
            throw InputError(fmt::format("{}, type: expected \"{}\", got \"{}\". Plan again.",
                                         where(), op.type, planned.type));
        }
        if (planned_ops[at->second] != nullptr) {
            throw InputError(where() + ": placed twice. Remove one of the two.");
        }
        if (op.kind != graph::OpKind::parameter && planned.update != PlannedUpdate{}) {
            throw InputError(where() + ", update: the op is no parameter. Plan again.");
        }
        planned_ops[at->second] = &planned;
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (planned_ops[i] != nullptr) continue;
        const graph::Op& op = graph.ops()[i];
        if (is_added_by_loss(graph, op.name, op.type)) {
            throw UsageError(
                fmt::format("{}: was made for another loss, and places nothing that --loss {} "
                            "adds. Plan again with that.",
                            plan.source, name_of(problem.policy().loss)));
        }
        throw InputError(fmt::format("{}: ops: '{}' ({}) is missing. Plan again.", plan.source,
                                     op.name, op.type));
    }
    const auto refuse = [&](const Fault& fault) {
        if (fault) throw InputError(fmt::format("{}: {}. Plan again.", plan.source, *fault));
    };
    Strategy strategy;
    strategy.policy = plan.policy;
    strategy.ops.resize(graph.op_count());
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        refuse(read_decision(problem, graph::OpId(i), *planned_ops[i], strategy.ops[i]));
    }
    refuse(find_fault(problem, strategy));
    return strategy;
}

}  // namespace partita::plan
