// SPDX-License-Identifier: Apache-2.0
#include "plan/task_graph_builder.h"

#include <algorithm>

#include "graph/error.h"

namespace partita::plan {

namespace {

/// Rows 0..rows-1 of sorted, distinct (row, item) pairs.
template <class T>
Csr<T> to_csr(std::vector<std::pair<TaskId, T>>& pairs, std::size_t rows) {
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    Csr<T> csr;
    csr.offsets.assign(rows + 1, 0);
    csr.items.reserve(pairs.size());
    for (const auto& [row, item] : pairs) {
        ++csr.offsets[static_cast<std::size_t>(row) + 1];
        csr.items.push_back(item);
    }
    for (std::size_t i = 0; i < rows; ++i) csr.offsets[i + 1] += csr.offsets[i];
    return csr;
}

}  // namespace

TaskGraphBuilder::TaskGraphBuilder(const Problem& problem) : problem_(problem) {
    const int devices = problem.device_count();
    graph_.device_count = devices;
    graph_.resource_count =
        3 * devices + static_cast<std::int32_t>(problem.machine().channels().size());
    graph_.persistent.assign(static_cast<std::size_t>(devices), Bytes{0});
    // Lane d is the compute row of device d.
    for (int d = 0; d < devices; ++d) {
        graph_.lanes.items.push_back(compute_row(d));
        graph_.lanes.offsets.push_back(static_cast<std::uint32_t>(graph_.lanes.items.size()));
    }
}

TaskId TaskGraphBuilder::add_task(Task task) {
    task.lane = task.kind == TaskKind::copy ? lane_of_copy(task.device, task.to) : task.device;
    graph_.tasks.push_back(task);
    return static_cast<TaskId>(graph_.tasks.size() - 1);
}

std::int32_t TaskGraphBuilder::lane_of_copy(int from, int to) {
    const std::int64_t key = std::int64_t{from} * graph_.device_count + to;
    const auto at =
        std::lower_bound(copy_lanes_.begin(), copy_lanes_.end(), std::pair{key, std::int32_t{0}});
    if (at != copy_lanes_.end() && at->first == key) return at->second;
    const auto lane = static_cast<std::int32_t>(graph_.lanes.rows());
    std::vector<std::int32_t> resources{send_row(from), receive_row(to)};
    for (const std::int32_t channel : problem_.machine().route(from, to).channels) {
        resources.push_back(3 * graph_.device_count + channel);
    }
    std::sort(resources.begin(), resources.end());
    graph_.lanes.items.insert(graph_.lanes.items.end(), resources.begin(), resources.end());
    graph_.lanes.offsets.push_back(static_cast<std::uint32_t>(graph_.lanes.items.size()));
    copy_lanes_.insert(at, {key, lane});
    return lane;
}

void TaskGraphBuilder::add_edge(TaskId before, TaskId after) {
    if (before >= 0) edges_.emplace_back(before, after);
}

std::int32_t TaskGraphBuilder::add_buffer(TaskId writer, Bytes bytes) {
    const Task& by = task(writer);
    graph_.buffers.push_back({by.kind == TaskKind::copy ? by.to : by.device, writer, bytes});
    const auto id = static_cast<std::int32_t>(graph_.buffers.size() - 1);
    writes_.emplace_back(writer, id);
    return id;
}

void TaskGraphBuilder::add_read(TaskId task, std::int32_t buffer) {
    if (buffer >= 0) reads_.emplace_back(task, buffer);
}

void TaskGraphBuilder::add_persistent(int device, Bytes bytes) {
    graph_.persistent[static_cast<std::size_t>(device)] += bytes;
}

TaskGraph TaskGraphBuilder::finish() {
    Int128 total = 0;
    for (const Task& task : graph_.tasks) total += task.duration.raw();
    if (total >= Int128{1} << 62) {
        throw OverflowError(
            "the tasks of one iteration take 2^62 ps (53 days) or more one after the other; "
            "the planner counts in picoseconds and stops there");
    }
    graph_.successors = to_csr(edges_, graph_.size());
    graph_.predecessor_counts.assign(graph_.size(), 0);
    for (const TaskId next : graph_.successors.items) {
        ++graph_.predecessor_counts[static_cast<std::size_t>(next)];
    }
    graph_.reads = to_csr(reads_, graph_.size());
    graph_.writes = to_csr(writes_, graph_.size());
    return std::move(graph_);
}

}  // namespace partita::plan
