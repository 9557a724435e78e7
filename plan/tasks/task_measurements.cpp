// SPDX-License-Identifier: Apache-2.0
#include "plan/tasks/task_measurements.h"

#include <algorithm>
#include <set>
#include <utility>

#include "graph/operators/part.h"
#include "plan/layout/layout.h"
#include "plan/problem/micro_batches.h"
#include "plan/problem/op_costs.h"

namespace partita::plan {

namespace {

const Task& at(const TaskGraph& tasks, TaskId task) {
    return tasks.tasks[task.index()];
}

/// Of `count` equal times in a row, one.
cost::Measurement divided(cost::Measurement time, std::int64_t count) {
    for (Time* each : {&time.median, &time.lower, &time.upper}) {
        *each = Time(std::max<std::int64_t>(1, each->raw() / count));
    }
    return time;
}

}  // namespace

TaskMeasurements::TaskMeasurements(const Problem& problem, const Strategy& strategy,
                                   const TaskGraph& tasks)
    : problem_(problem), strategy_(strategy), tasks_(tasks), elements_(tasks.size(), 0) {
    for (const Buffer& buffer : tasks.buffers) {
        if (!buffer.writer.valid() || buffer.region < 0) continue;
        elements_[buffer.writer.index()] = tasks.regions->volume(buffer.region);
    }
}

cost::DeviceKey TaskMeasurements::device(TaskId task, int threads) const {
    return cost::device_key(problem_.machine().device(at(tasks_, task).device), threads);
}

cost::MeasuredWork TaskMeasurements::part(const Task& task, cost::Measurement time) const {
    const graph::OpRule& rule = problem_.facts().rule(task.op);
    const OpConfig& config = strategy_.config(task.op);
    const int micro_batches =
        problem_.facts().is_batched(task.op) ? strategy_.policy.micro_batches : 1;
    const Parts parts(rule, config,
                      micro_batch_box(problem_.facts(), task.op, micro_batches,
                                      std::max(task.micro_batch, std::int32_t{0})));
    const graph::Box box = parts.box(std::max(task.part, std::int32_t{0}));
    const OpWorks& works = problem_.facts().works();
    if (task.kind == TaskKind::loss) {
        PartSize size = whole_size(problem_.graph(), task.op, rule);
        const graph::Tensor& tensor =
            problem_.graph().tensor(problem_.graph().op(task.op).inputs[0]);
        size.operands[0] = region_of(rule, rule.operands[0], tensor.shape, box).volume();
        return cost::measured_work(works.backward(task.op, size), std::move(time));
    }
    PartSize size = size_of_part(problem_.graph(), task.op, rule, box);
    size.beside = cores_beside(problem_.machine().device(task.device), config.devices.size());
    const bool weights = task.kind == TaskKind::weights;
    const bool backward = task.kind == TaskKind::backward || weights;
    const auto wanted = problem_.facts().wanted(task.op, weights ? Pass::weights : Pass::backward);
    const cost::WorkSignature signature = backward ? OpWorks::backward_signature(size, wanted)
                                                   : works.forward_signature(task.op, size);
    cost::Work work =
        backward ? works.backward(task.op, size, wanted) : works.forward(task.op, size);
    work.signature = &signature;
    return cost::measured_work(work, std::move(time));
}

std::optional<cost::MeasuredWork> TaskMeasurements::work(TaskId id, cost::Measurement time) const {
    const Task& task = at(tasks_, id);
    const std::int64_t elements = elements_[id.index()];
    switch (task.kind) {
    case TaskKind::forward:
    case TaskKind::loss:
    case TaskKind::backward:
    case TaskKind::weights:
    case TaskKind::recompute:
        if (problem_.graph().op(task.op).given) return std::nullopt;
        return part(task, std::move(time));
    case TaskKind::accumulate: {
        const auto added = static_cast<std::int64_t>(tasks_.reads[id.index()].size()) - 1;
        return cost::measured_work(accumulate_work(problem_.graph().tensor(task.tensor), elements),
                                   divided(std::move(time), std::max<std::int64_t>(added, 1)));
    }
    case TaskKind::pack:
        return cost::measured_work(
            pack_work(problem_.graph().tensor(task.tensor), elements, task.gradient),
            std::move(time));
    case TaskKind::update:
        return cost::measured_work(problem_.facts().works().update(task.op, elements),
                                   std::move(time));
    case TaskKind::clip:
    case TaskKind::copy:
    case TaskKind::collective: break;
    }
    return std::nullopt;
}

std::optional<cost::MeasuredTransfer> TaskMeasurements::transfer(TaskId id, cost::Measurement time,
                                                                 std::string variant) const {
    const Task& task = at(tasks_, id);
    if (!is_communication(task.kind)) return std::nullopt;
    std::vector<int> devices = {task.device, task.to};
    if (task.kind == TaskKind::collective) {
        const auto ranks = tasks_.ranks[static_cast<std::size_t>(task.ranks)];
        devices.assign(ranks.begin(), ranks.end());
    }
    std::set<int> nodes;
    for (const int device : devices) nodes.insert(problem_.machine().device(device).node);
    return cost::MeasuredTransfer{
        .copy = task.kind == TaskKind::copy,
        .kind = task.kind == TaskKind::copy ? cost::Collective::broadcast : task.collective,
        .ranks = static_cast<int>(devices.size()),
        .nodes = static_cast<int>(nodes.size()),
        .bytes = task.bytes,
        .dtype = problem_.graph().tensor(task.tensor).type_of(task.gradient),
        .variant = std::move(variant),
        .time = std::move(time)};
}

}  // namespace partita::plan
