// SPDX-License-Identifier: Apache-2.0
#include "plan/lower.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "plan/task_graph_builder.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::TensorId;

namespace {

/// Where a tensor (or a gradient) can be had on a device: the task to wait for and the buffer to
/// keep; -1 for what was there from the start.
struct Place {
    int device = -1;
    TaskId task = -1;
    std::int32_t buffer = -1;
};

class Lowering {
public:
    Lowering(const Problem& problem, const Strategy& strategy)
        : problem_(problem),
          graph_(problem.graph()),
          strategy_(strategy),
          build_(problem),
          places_(graph_.tensor_count()),
          forward_(graph_.op_count(), -1),
          contributions_(problem.mode() == Mode::training ? graph_.tensor_count() : 0) {}

    TaskGraph run() {
        for (std::size_t i = 0; i < graph_.op_count(); ++i) lower_forward(OpId(i));
        if (problem_.mode() == Mode::training) {
            for (std::size_t i = graph_.op_count(); i-- > 0;) lower_backward(OpId(i));
        }
        add_resident_memory();
        return build_.finish();
    }

private:
    void lower_forward(OpId id);
    void lower_source(OpId id, const Op& op);
    void lower_backward(OpId id);
    void lower_loss(OpId id, const Op& op);
    void lower_update(OpId id, const Op& op);
    Place gradient_of(TensorId t, OpId producer, bool persistent);
    Place sum_of(std::vector<Place> parts, TensorId t, int device, bool persistent);
    Place operand_at(TensorId t, int device);
    TaskId copy(TensorId t, bool gradient, const Place& from, int to);
    TaskId add_compute(TaskKind kind, OpId op, int device, Time duration, TensorId tensor = {});
    void add_resident_memory();

    /// Buffers of a workload are part of the memory it gives for the node.
    [[nodiscard]] Bytes buffer_bytes(TensorId t) const {
        return graph_.op(graph_.tensor(t).producer).given ? Bytes{0} : problem_.tensor_bytes(t);
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const Strategy& strategy_;
    TaskGraphBuilder build_;
    std::vector<std::vector<Place>> places_;         ///< per tensor, first the producer's device
    std::vector<TaskId> forward_;                    ///< per op
    std::vector<std::vector<Place>> contributions_;  ///< per tensor: gradients from its consumers
};

void Lowering::lower_source(OpId id, const Op& op) {
    const TensorId t = op.outputs[0];
    if (problem_.is_resident(t)) return;  // see add_resident_memory()
    const int device = strategy_.device_of(id);
    build_.add_persistent(device, problem_.persistent_bytes(id));
    places_[t.index()].push_back({device, -1, -1});
}

Place Lowering::operand_at(TensorId t, int device) {
    auto& places = places_[t.index()];
    const auto at = std::find_if(places.begin(), places.end(),
                                 [&](const Place& place) { return place.device == device; });
    if (at != places.end()) return *at;
    if (problem_.is_resident(t)) {
        places.push_back({device, -1, -1});
        return places.back();
    }
    assert(!places.empty());
    const TaskId task = copy(t, false, places.front(), device);
    places.push_back({device, task, build_.add_buffer(task, buffer_bytes(t))});
    return places.back();
}

TaskId Lowering::add_compute(TaskKind kind, OpId op, int device, Time duration, TensorId tensor) {
    return build_.add_task(
        {.kind = kind, .op = op, .tensor = tensor, .device = device, .duration = duration});
}

TaskId Lowering::copy(TensorId t, bool gradient, const Place& from, int to) {
    const TaskId task = build_.add_task({.kind = TaskKind::copy,
                                         .gradient = gradient,
                                         .op = graph_.tensor(t).producer,
                                         .tensor = t,
                                         .device = from.device,
                                         .to = to,
                                         .lane = 0,
                                         .duration = problem_.copy_time(t, from.device, to)});
    build_.add_edge(from.task, task);
    build_.add_read(task, from.buffer);
    return task;
}

void Lowering::lower_forward(OpId id) {
    const Op& op = graph_.op(id);
    const int device = strategy_.device_of(id);
    if (op.kind == OpKind::output) {
        operand_at(op.inputs[0], device);
        return;
    }
    if (op.kind != OpKind::compute) {
        lower_source(id, op);
        return;
    }
    std::vector<Place> operands;
    for (const TensorId t : op.inputs) {
        operands.push_back(t.valid() ? operand_at(t, device) : Place{});
    }
    const TaskId task =
        add_compute(TaskKind::forward, id, device, problem_.forward_time(id, device));
    forward_[id.index()] = task;
    for (const Place& operand : operands) {
        build_.add_edge(operand.task, task);
        build_.add_read(task, operand.buffer);
    }
    if (op.given) build_.add_persistent(device, op.given->memory);
    // A view keeps its operand's buffer alive instead of allocating one of its own.
    const bool view = problem_.rule(id).alias && !operands.empty() && operands[0].buffer >= 0;
    for (const TensorId t : op.outputs) {
        const std::int32_t buffer =
            view ? operands[0].buffer : build_.add_buffer(task, buffer_bytes(t));
        places_[t.index()].push_back({device, task, buffer});
    }
}

void Lowering::lower_backward(OpId id) {
    const Op& op = graph_.op(id);
    if (op.kind == OpKind::output) {
        if (problem_.has_backward(id)) lower_loss(id, op);
        return;
    }
    if (op.kind != OpKind::compute) {
        lower_update(id, op);
        return;
    }
    if (!problem_.has_backward(id)) return;
    const int device = strategy_.device_of(id);
    std::vector<Place> gradients;
    for (const TensorId t : op.outputs) {
        if (problem_.has_gradient(t)) gradients.push_back(gradient_of(t, id, false));
    }
    const TaskId task =
        add_compute(TaskKind::backward, id, device, problem_.backward_time(id, device));
    build_.add_edge(forward_[id.index()], task);
    for (const Place& gradient : gradients) {
        build_.add_edge(gradient.task, task);
        build_.add_read(task, gradient.buffer);
    }
    const graph::OpRule& rule = problem_.rule(id);
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const TensorId t = op.inputs[i];
        if (!t.valid()) continue;
        const bool saved = i >= 64 || ((rule.saves_operands >> i) & 1U) != 0;
        if (saved) build_.add_read(task, operand_at(t, device).buffer);
        if (problem_.has_gradient(t)) contributions_[t.index()].push_back({device, task, -1});
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        const bool saved = i >= 64 || ((rule.saves_results >> i) & 1U) != 0;
        if (saved) build_.add_read(task, operand_at(op.outputs[i], device).buffer);
    }
}

void Lowering::lower_loss(OpId id, const Op& op) {
    const TensorId t = op.inputs[0];
    const int device = strategy_.device_of(id);
    const Place value = operand_at(t, device);
    const TaskId task = add_compute(TaskKind::loss, id, device, problem_.backward_time(id, device));
    build_.add_edge(value.task, task);
    build_.add_read(task, value.buffer);
    contributions_[t.index()].push_back({device, task, -1});
}

/// The gradient of `t` on its producer's device. Contributions are added per device first, so that
/// each device sends one copy: the mirror image of the forward's one copy per destination.
Place Lowering::gradient_of(TensorId t, OpId producer, bool persistent) {
    const int home = strategy_.device_of(producer);
    auto& parts = contributions_[t.index()];
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Place& a, const Place& b) { return a.device < b.device; });
    std::vector<Place> arrived;
    std::vector<std::pair<std::size_t, std::size_t>> remote;
    for (std::size_t first = 0; first < parts.size();) {
        std::size_t last = first;
        while (last < parts.size() && parts[last].device == parts[first].device) ++last;
        if (parts[first].device != home) {
            remote.emplace_back(first, last);
        } else {
            arrived.assign(parts.begin() + static_cast<std::ptrdiff_t>(first),
                           parts.begin() + static_cast<std::ptrdiff_t>(last));
        }
        first = last;
    }
    for (const auto& [first, last] : remote) {
        const auto begin = parts.begin();
        const std::vector<Place> group(begin + static_cast<std::ptrdiff_t>(first),
                                       begin + static_cast<std::ptrdiff_t>(last));
        const Place sum = sum_of(group, t, group.front().device, false);
        arrived.push_back({home, copy(t, true, sum, home), -1});
    }
    return sum_of(std::move(arrived), t, home, persistent);
}

/// Adds contributions that lie on one device. Every contribution but a lone one that is written
/// straight to its place needs a buffer; a parameter's accumulator is persistent.
Place Lowering::sum_of(std::vector<Place> parts, TensorId t, int device, bool persistent) {
    assert(!parts.empty());
    const auto adds = static_cast<std::int64_t>(parts.size()) - 1;
    if (adds == 0) {
        if (!persistent) parts[0].buffer = build_.add_buffer(parts[0].task, buffer_bytes(t));
        return parts[0];
    }
    const TaskId task = build_.add_task({.kind = TaskKind::accumulate,
                                         .gradient = true,
                                         .op = graph_.tensor(t).producer,
                                         .tensor = t,
                                         .device = device,
                                         .to = -1,
                                         .lane = 0,
                                         .duration = adds * problem_.accumulate_time(t, device)});
    for (Place& part : parts) {
        part.buffer = build_.add_buffer(part.task, buffer_bytes(t));
        build_.add_edge(part.task, task);
        build_.add_read(task, part.buffer);
    }
    // In place, into the first contribution.
    return {device, task, persistent ? -1 : parts[0].buffer};
}

void Lowering::lower_update(OpId id, const Op& op) {
    const TensorId t = op.outputs[0];
    if (!problem_.has_gradient(t)) return;
    const int device = strategy_.device_of(id);
    const Place gradient = gradient_of(t, id, true);
    const TaskId task =
        add_compute(TaskKind::update, id, device, problem_.update_time(id, device), t);
    build_.add_edge(gradient.task, task);
    // In place, so every reader of the old value comes first: kernels here, copies to elsewhere.
    for (const Place& place : places_[t.index()]) build_.add_edge(place.task, task);
    for (const graph::Use use : graph_.uses(t)) {
        if (strategy_.device_of(use.op) == device) {
            build_.add_edge(forward_[use.op.index()], task);
        }
    }
    for (const Place& part : contributions_[t.index()]) build_.add_edge(part.task, task);
}

void Lowering::add_resident_memory() {
    for (std::size_t i = 0; i < graph_.tensor_count(); ++i) {
        const TensorId t(i);
        if (!problem_.is_resident(t)) continue;
        for (const Place& place : places_[i]) {
            build_.add_persistent(place.device, problem_.tensor_bytes(t));
        }
    }
}

}  // namespace

TaskGraph lower(const Problem& problem, const Strategy& strategy) {
    assert(strategy.configs.size() == problem.graph().op_count());
    return Lowering(problem, strategy).run();
}

}  // namespace partita::plan
