// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/planned_collectives.h"

#include "plan/tasks/task_name.h"

namespace partita::plan {

std::vector<PlannedCollective> collectives_of(const Problem& problem, const TaskGraph& tasks) {
    std::vector<PlannedCollective> collectives;
    for (const Task& task : tasks.tasks) {
        if (task.kind != TaskKind::collective) continue;
        collectives.push_back({task_name(problem, task), task.algorithm, task.protocol});
    }
    return collectives;
}

PlannedCollectives::PlannedCollectives(const graph::OpGraph& graph, const cost::Machine& machine,
                                       std::span<const PlannedCollective> collectives)
    : graph_(graph), machine_(machine) {
    for (const PlannedCollective& collective : collectives) {
        by_name_.emplace(collective.task, &collective);
    }
}

const PlannedCollective* PlannedCollectives::find(const Task& collective) const {
    // On another machine than the plan's, devices may have other names, and be more.
    if (collective.device >= machine_.device_count()) return nullptr;
    const auto found = by_name_.find(task_name(graph_, machine_, collective));
    return found == by_name_.end() ? nullptr : found->second;
}

void PlannedCollectives::choose_algorithms(TaskGraph& tasks) const {
    for (Task& task : tasks.tasks) {
        if (task.kind != TaskKind::collective) continue;
        const PlannedCollective* const planned = find(task);
        if (planned == nullptr) continue;
        task.algorithm = planned->algorithm;
        task.protocol = planned->protocol;
    }
}

}  // namespace partita::plan
