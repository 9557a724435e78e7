// SPDX-License-Identifier: Apache-2.0
#include "plan/description/communication.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "cost/collectives/collective.h"

namespace partita::plan {

namespace {

Moved moved_by(const Problem& problem, const Task& task) {
    if (task.kind == TaskKind::clip) return Moved::norms;
    const bool of_parameter =
        problem.graph().op(problem.graph().tensor(task.tensor).producer).kind ==
        graph::OpKind::parameter;
    if (task.gradient) return of_parameter ? Moved::gradients : Moved::activation_gradients;
    return of_parameter ? Moved::parameters : Moved::activations;
}

std::string_view kind_of(const Task& task) {
    return task.kind == TaskKind::copy ? "copy" : cost::name_of(task.collective);
}

/// In all devices.
struct Sum {
    std::int64_t messages = 0;
    Int128 bytes = 0;
    Int128 time = 0;
};

}  // namespace

std::string_view name_of(Moved moved) {
    switch (moved) {
    case Moved::gradients: return "gradients";
    case Moved::parameters: return "parameters";
    case Moved::activations: return "activations";
    case Moved::activation_gradients: return "gradients of activations";
    case Moved::norms: return "norms";
    }
    return {};
}

std::string moved_text(const Problem& problem, const Task& task) {
    return fmt::format("{} of {}", kind_of(task), name_of(moved_by(problem, task)));
}

std::vector<Communication> communication_of(const Problem& problem, const TaskGraph& tasks) {
    std::map<std::pair<Moved, std::string_view>, Sum> sums;
    std::vector<char> takes_part(static_cast<std::size_t>(problem.device_count()), 0);
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const Task& task = tasks.tasks[i];
        if (!is_communication(task)) continue;
        // A copy is its sender's; a collective is each rank's.
        Int128 devices = 1;
        takes_part[static_cast<std::size_t>(task.device)] = 1;
        if (task.to >= 0) takes_part[static_cast<std::size_t>(task.to)] = 1;
        if (task.ranks >= 0) {
            const auto ranks = tasks.ranks[static_cast<std::size_t>(task.ranks)];
            devices = static_cast<Int128>(ranks.size());
            for (const std::int32_t device : ranks) {
                takes_part[static_cast<std::size_t>(device)] = 1;
            }
        }
        Sum& sum = sums[{moved_by(problem, task), kind_of(task)}];
        const std::int32_t copies = tasks.copies_of(i);
        sum.messages += copies;
        sum.bytes += devices * copies * task.bytes.raw();
        sum.time += devices * copies * task.duration.raw();
    }
    unfold(tasks, takes_part);
    const auto devices = static_cast<Int128>(std::ranges::count(takes_part, 1));
    std::vector<Communication> list;
    for (const auto& [what, sum] : sums) {
        list.push_back({.moved = what.first,
                        .kind = what.second,
                        .messages = sum.messages,
                        .bytes_per_device = Bytes(static_cast<std::int64_t>(sum.bytes / devices)),
                        .time_per_device = Time(static_cast<std::int64_t>(sum.time / devices))});
    }
    std::ranges::stable_sort(list, std::greater{}, &Communication::time_per_device);
    return list;
}

}  // namespace partita::plan
