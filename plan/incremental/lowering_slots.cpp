// SPDX-License-Identifier: Apache-2.0
//
// What an incremental lowering says of its slots.
#include <algorithm>
#include <cassert>
#include <limits>

#include "plan/incremental/lowering.h"
#include "plan/tasks/launch_time.h"

namespace partita::plan {

void IncrementalLowering::emit_tensor(std::size_t row) {
    const TensorTasks& tasks = *tensors_[row].tasks;
    std::size_t begin = 0;
    for (std::size_t e = 0; e < tasks.steps.size(); ++e) {
        const std::size_t end = tasks.steps[e].tasks;
        assert(end - begin < keys_.most_tasks());
        for (std::size_t i = begin; i < end; ++i) {
            emit_task(row, i, event_keys_[row][e] + (i - begin));
        }
        begin = end;
    }
}

void IncrementalLowering::emit_task(std::size_t row, std::size_t task, std::uint64_t key) {
    const Tensor& tensor = tensors_[row];
    const Slot slot = tensor.own[task];
    if (tensor.targets[task] != slot) {  // it moves with another
        emit_empty(slot);
        return;
    }
    const Task& of = tensor.tasks->tasks[task];
    const Fused* fused = fused_at(row, task);
    if (fused == nullptr) {
        add_predecessors(row, task);
    } else {
        for (const Member& member : fused->members) add_predecessors(member.row, member.task);
    }
    const bool in_block = tensor.tasks->in_block[task] != 0;
    const std::int64_t duration = fused != nullptr ? fused->duration : of.duration.raw();
    emit({.slot = slot,
          .resource_set = fused != nullptr ? fused->resource_set : of.resource_set,
          .duration = duration,
          .launch = launch_of(of.kind, duration),
          .key = key,
          .predecessors = {}},
         in_block ? IncrementalBlockOrder::kOfPredecessors : IncrementalBlockOrder::kNone);
}

void IncrementalLowering::add_predecessors(std::size_t row, std::size_t task) {
    const TensorTasks& tasks = *tensors_[row].tasks;
    for (const TaskRef ref : tasks.predecessors[task]) list_.add_predecessor(resolved(row, ref));
    if (clip_slot_ >= 0 && tasks.tasks[task].kind == TaskKind::update)
        list_.add_predecessor(clip_slot_);
    if (!tasks.fetches && !reduction_limits_.any()) return;
    const CommunicationWait first{.row = row, .task = task, .before = -1};
    for (auto it = std::ranges::lower_bound(waits_, first);
         it != waits_.end() && it->row == row && it->task == task; ++it) {
        list_.add_predecessor(it->before);
    }
}

Slot IncrementalLowering::resolved(std::size_t row, TaskRef ref) const {
    if (!is_part(ref)) return tensors_[row].targets[static_cast<std::size_t>(ref)];
    return first_slot(block_row(row, block_of(ref))) + part_of(ref);
}

void IncrementalLowering::emit_block(std::size_t block) {
    const PartBlock of = block_at(block);
    const int parts = parts_of(block);
    const Slot first = first_slot(block);
    const std::int32_t schedule_key = block_order().of(of.op, of.micro_batch, of.pass);
    const std::optional<PartBlock> before = layouts_.before(of);
    const OpLayouts& layouts = layouts_.of(of.op, of.micro_batch);
    for (int part = 0; part < parts; ++part) {
        const std::int32_t device = layouts.devices[static_cast<std::size_t>(part)];
        const auto device_class = static_cast<std::size_t>(problem_.prices().device_class(device));
        for (const EventId& find : finds_[block]) {
            const TensorTasks& tasks = *tensors_[find.row].tasks;
            const TensorStep& step = tasks.steps[find.event];
            if (!step.waits) continue;
            for (const Source& source : sources_of(tasks, step, static_cast<std::size_t>(part))) {
                if (source.task != -1) list_.add_predecessor(resolved(find.row, source.task));
            }
        }
        if (before) list_.add_predecessor(first_slot(block_row(*before)) + part);
        const std::int64_t duration = layouts.time(of.pass, device_class).raw();
        emit({.slot = first + part,
              .resource_set = device,
              .duration = duration,
              .launch = launch_of(TaskKind::forward, duration),
              .key = key_of_part(of, part),
              .predecessors = {}},
             schedule_key);
    }
    for (int part = parts; part < parts_[block]; ++part) emit_empty(first + part);
}

std::int32_t IncrementalLowering::launch_of(TaskKind kind, std::int64_t duration) const {
    static_assert(kMostHostTime.raw() <= std::numeric_limits<std::int32_t>::max());
    return static_cast<std::int32_t>(
        launch_time(problem_.policy().host_time, kind, Time(duration)).raw());
}

std::uint64_t IncrementalLowering::key_of_part(const PartBlock& block, int part) const {
    // What is the same in all micro-batches goes backward after the last.
    const bool last = block.pass == Pass::backward && !problem_.facts().is_batched(block.op);
    const int m = last ? rows().micro_batches() - 1 : block.micro_batch;
    return keys_.of_part(problem_.priority(block.op, block.pass), m, part);
}

}  // namespace partita::plan
