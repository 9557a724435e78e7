// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/gradient_clipping.h"

#include <algorithm>
#include <ranges>

#include "plan/problem/op_costs.h"
#include "plan/tensors/tensor_events.h"

namespace partita::plan {

GradientClipping::GradientClipping(const Problem& problem, const StrategyTensors& layouts,
                                   const RegionTable& regions)
    : problem_(problem), layouts_(layouts), regions_(regions) {
    if (problem.policy().clip_norm <= 0) return;
    for (std::size_t row = 0; row < layouts.events().size(); ++row) {
        const bool updated = std::ranges::any_of(
            layouts.events()[row].events,
            [](const TensorEvent& event) { return event.kind == TensorEvent::Kind::update; });
        if (updated) rows_.push_back(row);
    }
}

GradientClip GradientClipping::find(const TasksOfRow& tasks_of) const {
    std::vector<Bytes> read(static_cast<std::size_t>(problem_.device_count()), Bytes{-1});
    for (const std::size_t row : rows_) {
        const TensorTasks& tasks = *tasks_of(row);
        const graph::Tensor& tensor = problem_.graph().tensor(layouts_.events()[row].tensor);
        for (const TensorBuffer& buffer : tasks.buffers) {
            if (buffer.writer < 0 || buffer.gradient) continue;
            const Task& writer = tasks.tasks[static_cast<std::size_t>(buffer.writer)];
            if (writer.kind != TaskKind::update) continue;
            Bytes& of_device = read[static_cast<std::size_t>(writer.device)];
            of_device = std::max(of_device, Bytes{0}) +
                        gradient_bytes_of(tensor, regions_.volume(buffer.region));
        }
    }
    const graph::TensorId first = layouts_.events()[rows_.front()].tensor;
    GradientClip clip{
        .devices = {},
        .task = {
            .kind = TaskKind::clip, .op = problem_.graph().tensor(first).producer, .tensor = {}}};
    clip.task.priority = problem_.priority(clip.task.op, Pass::backward);
    for (int device = 0; device < problem_.device_count(); ++device) {
        const Bytes bytes = read[static_cast<std::size_t>(device)];
        if (bytes < Bytes{0}) continue;
        clip.devices.push_back(device);
        const cost::Price own = problem_.prices().norm_price(bytes, device);
        if (own.time > clip.task.duration) set_price(clip.task, own);
    }
    if (clip.devices.size() > 1) {
        clip.task.duration += problem_.transfers()
                                  .collective_price({.kind = cost::Collective::all_reduce,
                                                     .devices = clip.devices,
                                                     .bytes = kNormBytes})
                                  .time;
    }
    return clip;
}

}  // namespace partita::plan
