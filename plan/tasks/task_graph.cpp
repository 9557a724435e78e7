// SPDX-License-Identifier: Apache-2.0
#include "plan/tasks/task_graph.h"

#include <fmt/format.h>

#include <numeric>

#include "base/sha256.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_name.h"

namespace partita::plan {

std::string_view name_of(TaskKind kind) {
    switch (kind) {
    case TaskKind::forward: return "forward";
    case TaskKind::loss: return "loss";
    case TaskKind::backward: return "backward";
    case TaskKind::accumulate: return "accumulate";
    case TaskKind::pack: return "pack";
    case TaskKind::update: return "update";
    case TaskKind::clip: return "clip";
    case TaskKind::copy: return "copy";
    case TaskKind::collective: return "collective";
    case TaskKind::recompute: return "recompute";
    case TaskKind::weights: return "weights";
    }
    return {};
}

std::string task_name(const Problem& problem, const Task& task) {
    return task_name(problem.graph(), problem.machine(), task);
}

bool have_one_name(const Task& a, const Task& b) {
    return a.device == b.device && a.to == b.to && a.kind == b.kind && a.tensor == b.tensor &&
           a.op == b.op && a.gradient == b.gradient && a.updated == b.updated &&
           a.collective == b.collective && a.part == b.part && a.micro_batch == b.micro_batch;
}

std::string resource_name(const Problem& problem, std::int32_t resource) {
    static constexpr const char* kRows[] = {"compute", "send", "receive"};
    const int rows = 3 * problem.device_count();
    if (resource >= rows) {
        return problem.machine().channels()[static_cast<std::size_t>(resource - rows)].name;
    }
    return problem.machine().device(resource / 3).name + " " + kRows[resource % 3];
}

/// Kahn's algorithm.
std::vector<TaskId> topological_order(const TaskGraph& graph) {
    std::vector<std::int32_t> waiting = graph.predecessor_counts;
    std::vector<TaskId> order;
    order.reserve(graph.size());
    for (std::size_t i = 0; i < graph.size(); ++i) {
        if (waiting[i] == 0) order.emplace_back(i);
    }
    for (std::size_t at = 0; at < order.size(); ++at) {
        for (const TaskId next : graph.successors[order[at].index()]) {
            if (--waiting[next.index()] == 0) order.push_back(next);
        }
    }
    return order;
}

std::int64_t TaskGraph::whole_size() const {
    if (!is_folded()) return static_cast<std::int64_t>(size());
    return std::accumulate(copies.begin(), copies.end(), std::int64_t{0});
}

CostCounts count_costs(const TaskGraph& graph) {
    CostCounts counts{};
    for (std::size_t i = 0; i < graph.size(); ++i) {
        counts[static_cast<std::size_t>(graph.tasks[i].source)] += graph.copies_of(i);
    }
    return counts;
}

std::vector<std::int32_t> stands_for(const TaskGraph& graph) {
    std::vector<std::int32_t> count(static_cast<std::size_t>(graph.device_count),
                                    graph.is_folded() ? 0 : 1);
    for (const std::int32_t device : graph.representatives)
        ++count[static_cast<std::size_t>(device)];
    return count;
}

std::string label_of(const std::string& name, std::int32_t stands_for) {
    return stands_for > 1 ? fmt::format("{} x {}", name, stands_for) : name;
}

std::string digest(const TaskGraph& graph) {
    Sha256 sha;
    sha.add(static_cast<std::int64_t>(graph.size())).add(std::int64_t{graph.resource_count});
    for (const Task& task : graph.tasks) {
        sha.add(static_cast<std::int64_t>(task.kind) * 2 + task.gradient)
            .add(std::int64_t{task.op.value})
            .add(std::int64_t{task.tensor.value})
            .add(std::int64_t{task.device})
            .add(std::int64_t{task.to})
            .add(std::int64_t{task.resource_set})
            .add(std::int64_t{task.part})
            .add(std::int64_t{task.micro_batch})
            .add(static_cast<std::int64_t>(task.collective) * 64 + std::int64_t{task.fused} * 512 +
                 static_cast<std::int64_t>(task.combine))
            .add(task.bytes.raw())
            .add(task.duration.raw());
        if (!graph.hosts.items.empty()) sha.add(task.launch.raw());
    }
    for (std::size_t i = 0; i < graph.size(); ++i) {
        sha.add(static_cast<std::int64_t>(graph.successors[i].size()));
        for (const TaskId next : graph.successors[i]) sha.add(std::int64_t{next.value});
    }
    for (const std::int32_t device : graph.representatives) sha.add(std::int64_t{device});
    return "sha256:" + sha.finish();
}

}  // namespace partita::plan
