// SPDX-License-Identifier: Apache-2.0
#include "plan/planned_collectives.h"

#include "plan/task_name.h"

namespace partita::plan {

PlannedCollectives::PlannedCollectives(const graph::OpGraph& graph, const Plan& plan)
    : graph_(graph), plan_(plan) {
    for (const PlannedCollective& collective : plan.collectives) {
        by_name_.emplace(collective.task, &collective);
    }
}

const PlannedCollective* PlannedCollectives::find(const Task& collective) const {
    // The plan's own machine: on another one devices may have other names, and be more.
    if (!plan_.machine || collective.device >= plan_.machine->device_count()) return nullptr;
    const auto found = by_name_.find(task_name(graph_, *plan_.machine, collective));
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
