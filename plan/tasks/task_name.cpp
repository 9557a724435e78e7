// SPDX-License-Identifier: Apache-2.0
#include "plan/tasks/task_name.h"

#include <fmt/format.h>

namespace partita::plan {

std::string task_name(const graph::OpGraph& graph, const cost::Machine& machine, const Task& task) {
    if (task.kind == TaskKind::clip) return "clip gradients";
    std::string name = task.kind == TaskKind::collective
                           ? std::string(cost::name_of(task.collective))
                           : std::string(name_of(task.kind));
    if (task.tensor.valid()) {
        name += " " + graph.tensor(task.tensor).name + (task.gradient ? ".grad" : "") +
                (task.updated ? ".new" : "");
        if (task.fused > 0) name += fmt::format(" +{}", task.fused);
    } else {
        name += " " + graph.op(task.op).name;
    }
    switch (task.kind) {
    case TaskKind::copy:
        name +=
            fmt::format(" {}>{}", machine.device(task.device).name, machine.device(task.to).name);
        break;
    case TaskKind::accumulate:
    case TaskKind::pack:
    case TaskKind::collective: name += " " + machine.device(task.device).name; break;
    case TaskKind::forward:
    case TaskKind::loss:
    case TaskKind::backward:
    case TaskKind::weights:
    case TaskKind::recompute:
    case TaskKind::clip:
    case TaskKind::update: break;
    }
    if (task.part >= 0) name += fmt::format(" [{}]", task.part);
    if (task.micro_batch >= 0) name += fmt::format(" #{}", task.micro_batch);
    if (task.ordinal > 0) name += fmt::format(" ({})", task.ordinal + 1);
    return name;
}

}  // namespace partita::plan
