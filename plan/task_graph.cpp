// SPDX-License-Identifier: Apache-2.0
#include "plan/task_graph.h"

#include <fmt/format.h>

#include "graph/sha256.h"
#include "plan/problem.h"

namespace partita::plan {

std::string_view name_of(TaskKind kind) {
    switch (kind) {
    case TaskKind::forward: return "forward";
    case TaskKind::loss: return "loss";
    case TaskKind::backward: return "backward";
    case TaskKind::accumulate: return "accumulate";
    case TaskKind::update: return "update";
    case TaskKind::copy: return "copy";
    }
    return {};
}

std::string task_name(const Problem& problem, const Task& task) {
    const std::string kind(name_of(task.kind));
    if (!task.tensor.valid()) return kind + " " + problem.graph().op(task.op).name;
    const std::string tensor =
        problem.graph().tensor(task.tensor).name + (task.gradient ? ".grad" : "");
    const cost::Machine& machine = problem.machine();
    switch (task.kind) {
    case TaskKind::copy:
        return fmt::format("copy {} {}>{}", tensor, machine.device(task.device).name,
                           machine.device(task.to).name);
    case TaskKind::accumulate:
        return fmt::format("accumulate {} {}", tensor, machine.device(task.device).name);
    case TaskKind::forward:
    case TaskKind::loss:
    case TaskKind::backward:
    case TaskKind::update: break;
    }
    return kind + " " + tensor;
}

std::string resource_name(const Problem& problem, std::int32_t resource) {
    static constexpr const char* kRows[] = {"compute", "send", "receive"};
    const int rows = 3 * problem.device_count();
    if (resource >= rows) {
        return problem.machine().channels()[static_cast<std::size_t>(resource - rows)].name;
    }
    return problem.machine().device(resource / 3).name + " " + kRows[resource % 3];
}

std::string digest(const TaskGraph& graph) {
    graph::Sha256 sha;
    sha.add(static_cast<std::int64_t>(graph.size())).add(std::int64_t{graph.resource_count});
    for (const Task& task : graph.tasks) {
        sha.add(static_cast<std::int64_t>(task.kind) * 2 + task.gradient)
            .add(std::int64_t{task.op.value})
            .add(std::int64_t{task.tensor.value})
            .add(std::int64_t{task.device})
            .add(std::int64_t{task.to})
            .add(std::int64_t{task.lane})
            .add(task.duration.raw());
    }
    for (std::size_t i = 0; i < graph.size(); ++i) {
        sha.add(static_cast<std::int64_t>(graph.successors[i].size()));
        for (const TaskId next : graph.successors[i]) sha.add(std::int64_t{next});
    }
    return "sha256:" + sha.finish();
}

}  // namespace partita::plan
