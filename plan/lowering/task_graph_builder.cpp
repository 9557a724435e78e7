// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/task_graph_builder.h"

#include <algorithm>
#include <utility>

#include "base/csr.h"
#include "base/error.h"
#include "plan/lowering/block_order.h"
#include "plan/tasks/launch_time.h"

namespace partita::plan {

TaskGraphBuilder::TaskGraphBuilder(const Problem& problem, std::shared_ptr<RegionTable> regions)
    : host_time_(problem.policy().host_time), resource_sets_(problem) {
    graph_.regions = std::move(regions);
    graph_.device_count = problem.device_count();
    graph_.resource_count = resource_count_of(problem);
    graph_.persistent.assign(static_cast<std::size_t>(problem.device_count()), {});
}

TaskId TaskGraphBuilder::add_task(Task task) {
    task.resource_set =
        task.kind == TaskKind::copy ? resource_sets_.of_copy(task.device, task.to) : task.device;
    graph_.tasks.push_back(task);
    return TaskId(graph_.tasks.size() - 1);
}

TaskId TaskGraphBuilder::add_group_task(Task task, const std::vector<int>& devices) {
    if (task.kind != TaskKind::collective && devices.size() == 1) {
        task.device = devices[0];
        return add_task(task);
    }
    set_group(task, devices);
    graph_.tasks.push_back(task);
    return TaskId(graph_.tasks.size() - 1);
}

void TaskGraphBuilder::set_group(Task& task, const std::vector<int>& devices) {
    const ResourceSets::Group group = resource_sets_.of_ranks(devices);
    task.device = devices[0];
    task.ranks = group.row;
    task.resource_set = group.resource_set;
}

bool TaskGraphBuilder::has_rank(TaskId collective, int device) const {
    if (task(collective).ranks < 0) return false;
    const auto ranks = this->ranks(collective);
    return std::find(ranks.begin(), ranks.end(), device) != ranks.end();
}

void TaskGraphBuilder::add_edge(TaskId before, TaskId after) {
    if (before.valid()) edges_.emplace_back(before, after);
}

BufferId TaskGraphBuilder::add_buffer(const Buffer& buffer) {
    graph_.buffers.push_back(buffer);
    const BufferId id(graph_.buffers.size() - 1);
    if (buffer.writer.valid()) writes_.emplace_back(buffer.writer, id);
    return id;
}

void TaskGraphBuilder::add_read(TaskId task, BufferId buffer) {
    for (; buffer.valid(); buffer = this->buffer(buffer).root) reads_.emplace_back(task, buffer);
}

void TaskGraphBuilder::make_view(BufferId buffer, BufferId root) {
    // The memory itself: who reads the last of a chain of views need not read them all.
    const BufferId memory = this->buffer(root).root;
    graph_.buffers[buffer.index()].root = memory.valid() ? memory : root;
    graph_.buffers[buffer.index()].bytes = Bytes{0};
}

void TaskGraphBuilder::add_persistent(const PersistentBytes& kept) {
    graph_.persistent[static_cast<std::size_t>(kept.device)][kept.kind] += kept.bytes;
}

void TaskGraphBuilder::fold(std::span<const std::int32_t> representatives) {
    graph_.representatives.assign(representatives.begin(), representatives.end());
}

void TaskGraphBuilder::set_copies(TaskId task, std::int32_t copies) {
    graph_.copies.resize(graph_.size(), 1);
    graph_.copies[task.index()] = copies;
}

void TaskGraphBuilder::add_fused(const std::vector<TaskId>& members, const FusedCollective& fused) {
    in_place_of_.resize(graph_.size());
    const TaskId first_id = members[fused.members[0]];
    Task& first = graph_.tasks[first_id.index()];
    const bool renamed = first.collective != fused.kind || first.device != fused.devices[0];
    become(first, fused);
    set_group(first, fused.devices);
    for (std::size_t i = 1; i < fused.members.size(); ++i) {
        in_place_of_[members[fused.members[i]].index()] = first_id;
    }
    if (!renamed) return;
    first.ordinal = 0;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
        const Task& other = graph_.tasks[i];
        if (&other == &first || !have_one_name(other, first)) continue;
        first.ordinal = std::max(first.ordinal, other.ordinal + 1);
    }
}

/// Puts the first of each fusion's members in place of all.
void TaskGraphBuilder::remove_fused() {
    if (in_place_of_.empty()) return;
    std::vector<TaskId> id(graph_.size());  // now, by what it was
    std::size_t kept = 0;
    for (std::size_t i = 0; i < id.size(); ++i) {
        const TaskId first = in_place_of_[i];
        id[i] = first.valid() ? id[first.index()] : TaskId(kept);
        if (first.valid()) continue;
        if (graph_.is_folded()) graph_.copies[kept] = graph_.copies[i];
        graph_.tasks[kept++] = graph_.tasks[i];
    }
    graph_.tasks.resize(kept);
    if (graph_.is_folded()) graph_.copies.resize(kept);
    const auto renumber = [&id](TaskId& task) { task = id[task.index()]; };
    for (auto& [before, after] : edges_) {
        renumber(before);
        renumber(after);
    }
    for (auto& [task, buffer] : reads_) renumber(task);
    for (auto& [task, buffer] : writes_) renumber(task);
    for (Buffer& buffer : graph_.buffers) {
        if (buffer.writer.valid()) renumber(buffer.writer);
    }
}

TaskGraph TaskGraphBuilder::finish() {
    Int128 total = 0;
    for (const Task& task : graph_.tasks) total += task.duration.raw();
    if (total >= kMostWork) {
        throw OverflowError(
            "the tasks of one iteration take 2^62 ps (53 days) or more one after the other; "
            "the planner counts in picoseconds and stops there");
    }
    if (graph_.is_folded()) graph_.copies.resize(graph_.size(), 1);
    remove_fused();
    graph_.resource_sets = resource_sets_.resources();
    graph_.ranks = resource_sets_.ranks();
    if (host_time_.any()) graph_.hosts = resource_sets_.hosts();
    for (Task& task : graph_.tasks) task.launch = launch_time(host_time_, task.kind, task.duration);
    // A graph may be larger than what the host has left: what is not needed any more goes first.
    const bool scheduled = std::any_of(graph_.tasks.begin(), graph_.tasks.end(),
                                       [](const Task& task) { return task.schedule_key >= 0; });
    if (scheduled) add_control_edges(graph_.tasks, edges_);
    graph_.successors = to_csr(std::exchange(edges_, {}), graph_.size());
    graph_.predecessor_counts.assign(graph_.size(), 0);
    for (const TaskId next : graph_.successors.items) {
        ++graph_.predecessor_counts[next.index()];
    }
    graph_.reads = to_csr(std::exchange(reads_, {}), graph_.size());
    graph_.writes = to_csr(std::exchange(writes_, {}), graph_.size());
    if (scheduled) spread_schedule_keys(graph_);
    return std::move(graph_);
}

}  // namespace partita::plan
