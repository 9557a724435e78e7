// SPDX-License-Identifier: Apache-2.0
#include "plan/evaluation/max_load.h"

#include <algorithm>
#include <vector>

namespace partita::plan {

using graph::OpId;

bool has_given_costs(const Problem& problem) {
    const auto ops = problem.graph().ops();
    return std::any_of(ops.begin(), ops.end(), [](const auto& op) { return op.given.has_value(); });
}

namespace {

/// Devices other than the op's own that hold a successor, each once, rising.
std::vector<int> receivers(const Problem& problem, const Strategy& strategy, OpId op) {
    const int home = strategy.device_of(op);
    std::vector<int> devices;
    for (const OpId next : problem.graph().successors(op)) {
        if (strategy.device_of(next) != home) devices.push_back(strategy.device_of(next));
    }
    std::sort(devices.begin(), devices.end());
    devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
    return devices;
}

}  // namespace

Evaluation given_max_load(const Problem& problem, const Strategy& strategy) {
    Evaluation evaluation;
    evaluation.devices.resize(static_cast<std::size_t>(problem.device_count()));
    const auto is_accelerator = [&](int device) {
        return problem.machine().device(device).kind != cost::DeviceKind::cpu;
    };
    const auto use = [&](int device) -> DeviceUse& {
        return evaluation.devices[static_cast<std::size_t>(device)];
    };
    for (std::size_t i = 0; i < problem.graph().op_count(); ++i) {
        const OpId op(i);
        const auto& given = problem.graph().op(op).given;
        if (!given) continue;
        const int home = strategy.device_of(op);
        use(home).busy += problem.prices().forward_time(op, home);
        if (is_accelerator(home)) use(home).memory += given->memory;
        const std::vector<int> to = receivers(problem, strategy, op);
        if (!to.empty() && is_accelerator(home)) use(home).busy += given->communication_time;
        for (const int device : to) {
            if (is_accelerator(device)) use(device).busy += given->communication_time;
        }
    }
    for (const DeviceUse& device : evaluation.devices) {
        evaluation.value = std::max(evaluation.value, device.busy);
    }
    evaluation.overflow = memory_overflow(problem, evaluation.devices);
    return evaluation;
}

Time busiest_resource(const TaskGraph& graph) {
    std::vector<Time> load(static_cast<std::size_t>(graph.resource_count));
    std::vector<Time> launches(static_cast<std::size_t>(graph.device_count));
    for (const Task& task : graph.tasks) {
        for (const std::int32_t r :
             graph.resource_sets[static_cast<std::size_t>(task.resource_set)]) {
            load[static_cast<std::size_t>(r)] += task.duration;
        }
        for (const std::int32_t device :
             graph.hosts_of(static_cast<std::size_t>(task.resource_set)))
            launches[static_cast<std::size_t>(device)] += task.launch;
    }
    load.insert(load.end(), launches.begin(), launches.end());
    return load.empty() ? Time{0} : *std::ranges::max_element(load);
}

}  // namespace partita::plan
