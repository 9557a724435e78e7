// SPDX-License-Identifier: Apache-2.0
#include "plan/files/plan_file.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "plan/evaluation/max_load.h"
#include "plan/legality/config_legality.h"
#include "plan/lowering/lower.h"

namespace partita::plan {

Plan read_plan(const std::filesystem::path& file) {
    return parse_plan(read_text_file(file), file.filename().string());
}

Plan make_plan(const Problem& problem, const Strategy& strategy, const Provenance& provenance) {
    Plan plan;
    plan.model_digest = problem.model_digest();
    plan.machine = problem.machine();
    plan.machine_digest = "sha256:" + cost::digest(problem.machine());
    plan.mode = problem.mode();
    plan.objective = problem.objective();
    plan.policy = strategy.policy;
    for (std::size_t i = 0; i < strategy.ops.size(); ++i) {
        const graph::Op& op = problem.graph().ops()[i];
        plan.ops.push_back({op.name, op.type, strategy.ops[i]});
    }
    const TaskGraph tasks = lower(problem, strategy);
    plan.task_graph_digest = digest(tasks);
    plan.collectives = collectives_of(problem, tasks);
    const auto evaluator = make_evaluator(problem, provenance.scheduler);
    if (!has_given_costs(problem)) plan.commit_order = evaluator->commit_order(strategy);
    Evaluation evaluation = evaluator->evaluate(strategy);
    plan.value = evaluation.value;
    plan.devices = std::move(evaluation.devices);
    plan.lower_bound = provenance.lower_bound;
    plan.costs_digest = problem.costs_digest();
    plan.cost_sources = {problem.prices().costs().name()};
    if (!plan.collectives.empty()) {
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
    Strategy strategy;
    strategy.policy = plan.policy;
    strategy.ops.resize(graph.op_count());
    for (std::size_t i = 0; i < plan.ops.size(); ++i) {
        const PlannedOp& planned = plan.ops[i];
        const auto where = [&] {
            return fmt::format("{}: ops[{}] '{}'", plan.source, i, planned.name);
        };
        const auto at = ids.find(planned.name);
        if (at == ids.end()) {
            throw InputError(where() + ": the model has no op of this name. Plan again.");
        }
        const graph::Op& op = graph.ops()[at->second];
        if (op.type != planned.type) {
            throw InputError(fmt::format("{}, type: expected \"{}\", got \"{}\". Plan again.",
                                         where(), op.type, planned.type));
        }
        OpDecision& decision = strategy.ops[at->second];
        if (!decision.config.devices.empty()) {
            throw InputError(where() + ": placed twice. Remove one of the two.");
        }
        if (op.kind != graph::OpKind::parameter && planned.decision.update != UpdateConfig{}) {
            throw InputError(where() + ", update: the op is no parameter. Plan again.");
        }
        decision = planned.decision;
    }
    for (std::size_t i = 0; i < graph.op_count(); ++i) {
        if (!strategy.ops[i].config.devices.empty()) continue;
        throw InputError(fmt::format("{}: ops: '{}' ({}) is missing. Plan again.", plan.source,
                                     graph.ops()[i].name, graph.ops()[i].type));
    }
    if (const auto fault = find_fault(problem, strategy)) {
        throw InputError(fmt::format("{}: {}. Plan again.", plan.source, *fault));
    }
    return strategy;
}

}  // namespace partita::plan
