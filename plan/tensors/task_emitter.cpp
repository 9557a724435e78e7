// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/task_emitter.h"

#include <algorithm>

namespace partita::plan {

void TaskEmitter::clear() {
    tasks_.tasks.clear();
    tasks_.in_block.clear();
    tasks_.groups.clear();
    tasks_.buffers.clear();
    tasks_.steps.clear();
    tasks_.sources.clear();
    tasks_.persistent.clear();
    ordinals_.clear();
    readers_.clear();
    watched_.clear();
    edges_.clear();
    reads_.clear();
    is_read_.clear();
}

void TaskEmitter::begin_step() {
    tasks_.steps.push_back({.sources = static_cast<std::uint32_t>(tasks_.sources.rows())});
}

void TaskEmitter::end_step() {
    step().tasks = static_cast<std::uint32_t>(tasks_.tasks.size());
    step().buffers = static_cast<std::uint32_t>(tasks_.buffers.size());
    step().parts = static_cast<std::uint32_t>(tasks_.sources.rows()) - step().sources;
}

void TaskEmitter::add_sources(std::span<const Location> locations) {
    Csr<Source>& sources = tasks_.sources;
    for (const Location& location : locations) {
        sources.items.push_back({location.task, location.buffer});
    }
    sources.end_row();
}

TaskRef TaskEmitter::add_task(const Task& task) {
    tasks_.tasks.push_back(task);
    tasks_.in_block.push_back(0);
    Task& added = tasks_.tasks.back();
    if (!is_communication(added.kind)) added.resource_set = added.device;
    added.ordinal = ordinals_.of_last(tasks_.tasks);
    return static_cast<TaskRef>(tasks_.tasks.size()) - 1;
}

std::int32_t TaskEmitter::ranks_of(std::span<const int> devices) {
    auto group = std::find_if(
        tasks_.groups.begin(), tasks_.groups.end(), [&](const std::vector<int>& known) {
            return std::equal(known.begin(), known.end(), devices.begin(), devices.end());
        });
    if (group == tasks_.groups.end()) {
        group = tasks_.groups.insert(group, {devices.begin(), devices.end()});
    }
    return static_cast<std::int32_t>(group - tasks_.groups.begin());
}

void TaskEmitter::add_inputs(TaskRef task, std::span<const Location> locations) {
    for (const Location& location : locations) {
        add_edge(location.task, task);
        if (location.buffer < 0) continue;
        reads_.emplace_back(task, location.buffer);
        mark_read(location.buffer);
        readers_.add(task, location.buffer);
    }
}

void TaskEmitter::delay(TaskRef first, std::span<const Location> awaited) {
    const auto count = static_cast<std::size_t>(next_task() - first);
    std::vector<char> waits(count, 0);
    std::vector<int> ranks;
    for (const auto& [after, before] : edges_) {
        if (after >= first && before >= first) waits[static_cast<std::size_t>(after - first)] = 1;
    }
    for (TaskRef task = first; task < next_task(); ++task) {
        if (waits[static_cast<std::size_t>(task - first)] != 0) continue;
        const Task& of = tasks_.tasks[static_cast<std::size_t>(task)];
        ranks.clear();
        if (of.kind == TaskKind::collective)
            ranks = tasks_.groups[static_cast<std::size_t>(of.ranks)];
        std::ranges::sort(ranks);
        for (const Location& location : awaited) {
            const bool here = location.device == of.device || location.device == of.to ||
                              std::ranges::binary_search(ranks, location.device);
            if (here) add_edge(location.task, task);
        }
    }
}

std::int32_t TaskEmitter::add_buffer(const TensorBuffer& buffer) {
    tasks_.buffers.push_back(buffer);
    is_read_.push_back(0);
    return static_cast<std::int32_t>(tasks_.buffers.size()) - 1;
}

void TaskEmitter::watch_readers() {
    readers_.watch(tasks_.buffers.size());
    watched_.clear();
    for (std::int32_t b = 0; b < std::ssize(tasks_.buffers); ++b) {
        watched_.emplace_back(buffer(b).device, b);
    }
    if (!std::ranges::is_sorted(watched_)) std::ranges::sort(watched_);
}

void TaskEmitter::wait_for_readers(TaskRef task, int device) {
    const auto device_of = &std::pair<int, std::int32_t>::first;
    for (const auto& on_device : std::ranges::equal_range(watched_, device, {}, device_of)) {
        readers_.for_each(static_cast<std::size_t>(on_device.second), [&](TaskRef reader) {
            if (reader != task) add_edge(reader, task);
        });
    }
}

TensorTasks& TaskEmitter::finish() {
    to_csr(edges_, tasks_.tasks.size(), csr_, tasks_.predecessors);
    to_csr(reads_, tasks_.tasks.size(), csr_, tasks_.reads);
    return tasks_;
}

}  // namespace partita::plan
