// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/reduction_limits.h"

#include <algorithm>
#include <map>
#include <utility>

namespace partita::plan {

using graph::TensorId;

ReductionLimits::ReductionLimits(const Problem& problem, const StrategyTensors& layouts)
    : problem_(problem),
      layouts_(layouts),
      device_count_(problem.device_count()),
      micro_batches_(layouts.rows().micro_batches()) {
    if (problem.policy().bucket_bytes != kOneBucket) return;
    const GraphFacts& facts = problem.facts();
    for (std::size_t i = 0; i < problem.graph().tensor_count(); ++i) {
        const TensorId t(i);
        if (!facts.has_gradient(t)) continue;
        if (facts.is_activation(t)) activations_.push_back(t);
        const graph::OpId producer = problem.graph().tensor(t).producer;
        if (problem.graph().op(producer).kind == graph::OpKind::parameter) {
            parameters_.push_back(layouts.rows().row(t, 0));
        }
    }
}

std::vector<std::vector<ReductionLimits::Sent>> ReductionLimits::sent_in(
    int micro_batch, const TasksOfRow& tasks_of) const {
    std::vector<std::vector<Sent>> sent(static_cast<std::size_t>(device_count_));
    for (const TensorId t : activations_) {
        const std::size_t row = layouts_.rows().row(t, micro_batch);
        const TensorTasks* const tasks = tasks_of(row);
        if (tasks == nullptr) continue;
        for (std::size_t i = 0; i < tasks->tasks.size(); ++i) {
            const Task& task = tasks->tasks[i];
            if (task.kind != TaskKind::copy || !task.gradient) continue;
            sent[static_cast<std::size_t>(task.device)].push_back({row, static_cast<TaskRef>(i)});
        }
    }
    return sent;
}

ReductionLimits::Reduction ReductionLimits::reduction_of(std::size_t row, const TensorTasks& tasks,
                                                         std::uint32_t task) const {
    Task of = tasks.tasks[task];
    of.tensor = layouts_.events()[row].tensor;
    const std::vector<int>& devices = tasks.groups[static_cast<std::size_t>(of.ranks)];
    return {.unit = fusion_unit(problem_, layouts_, row, tasks, task),
            .depth = bucket_depth(tasks.fusion_blocks[task]),
            .signature = signature_of(problem_, {&of, devices})};
}

std::vector<RowEdge> ReductionLimits::find(const TasksOfRow& tasks_of) const {
    std::vector<RowEdge> edges;
    const auto fetches = [&](std::size_t row) {
        const TensorTasks* const tasks = tasks_of(row);
        return tasks != nullptr && tasks->fetches;
    };
    if (std::ranges::any_of(parameters_, fetches)) return edges;
    std::map<int, std::vector<std::vector<Sent>>> sent;  // by micro-batch
    std::map<Reduction, std::size_t> last_row;           // that has one of them
    for (const std::size_t row : parameters_) {
        const TensorTasks* const tasks = tasks_of(row);
        if (tasks == nullptr) continue;
        for (const std::uint32_t i : tasks->fusible) {
            const std::int32_t fusion = tasks->fusion_blocks[i];
            const Task& task = tasks->tasks[i];
            if (!in_bucket(fusion) || is_bucket_fetch(fusion) || !task.gradient) continue;
            const auto [last, is_first] = last_row.try_emplace(reduction_of(row, *tasks, i), row);
            // A tensor's second one goes alone.
            const bool goes_with_others = !is_first && std::exchange(last->second, row) != row;
            if (goes_with_others) continue;
            // What has added up over micro-batches comes after the last one.
            const TensorEvent& event = layouts_.events()[row].events[event_of(*tasks, i)];
            const bool of_one = event.kind == TensorEvent::Kind::contribute;
            const int micro_batch = of_one ? event.micro_batch : micro_batches_ - 1;
            const auto [at, is_new] = sent.try_emplace(micro_batch);
            if (is_new) at->second = sent_in(micro_batch, tasks_of);
            for (const int device : tasks->groups[static_cast<std::size_t>(task.ranks)]) {
                for (const Sent& before : at->second[static_cast<std::size_t>(device)]) {
                    edges.push_back({row, i, before.row, before.task});
                }
            }
        }
    }
    return edges;
}

}  // namespace partita::plan
