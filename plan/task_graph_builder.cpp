// SPDX-License-Identifier: Apache-2.0
#include "plan/task_graph_builder.h"

#include <algorithm>
#include <tuple>

#include "graph/error.h"
#include "plan/join.h"
#include "plan/turns.h"

namespace partita::plan {

namespace {

/// Rows 0..rows-1 of (row, item) pairs, each sorted and without repetitions. Rows are short, so counting
/// into rows and sorting these is quicker than sorting all pairs.
template <class T>
Csr<T> to_csr(const std::vector<std::pair<TaskId, T>>& pairs, std::size_t rows) {
    std::vector<std::uint32_t> ends(rows + 1, 0);
    for (const auto& pair : pairs) ++ends[static_cast<std::size_t>(pair.first) + 1];
    for (std::size_t i = 0; i < rows; ++i) ends[i + 1] += ends[i];
    std::vector<T> items(pairs.size());
    std::vector<std::uint32_t> next(ends.begin(), ends.end() - 1);
    for (const auto& [row, item] : pairs) items[next[static_cast<std::size_t>(row)]++] = item;
    Csr<T> csr;
    csr.offsets.reserve(rows + 1);
    csr.items.reserve(pairs.size());
    for (std::size_t i = 0; i < rows; ++i) {
        const auto begin = items.begin() + ends[i];
        const auto end = items.begin() + ends[i + 1];
        std::sort(begin, end);
        csr.items.insert(csr.items.end(), begin, std::unique(begin, end));
        csr.offsets.push_back(static_cast<std::uint32_t>(csr.items.size()));
    }
    return csr;
}

}  // namespace

TaskGraphBuilder::TaskGraphBuilder(const Problem& problem, std::shared_ptr<RegionTable> regions)
    : problem_(problem), regions_(std::move(regions)) {
    graph_.regions = regions_;
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
    const auto id = static_cast<TaskId>(graph_.tasks.size() - 1);
    number(id);
    return id;
}

TaskId TaskGraphBuilder::add_collective(Task task, const std::vector<int>& devices) {
    task.kind = TaskKind::collective;
    set_ranks(task, devices);
    graph_.tasks.push_back(task);
    const auto id = static_cast<TaskId>(graph_.tasks.size() - 1);
    number(id);
    return id;
}

void TaskGraphBuilder::set_ranks(Task& task, const std::vector<int>& devices) {
    task.device = devices[0];
    const auto known = rank_lanes_.find(devices);
    if (known == rank_lanes_.end()) {
        graph_.ranks.items.insert(graph_.ranks.items.end(), devices.begin(), devices.end());
        graph_.ranks.offsets.push_back(static_cast<std::uint32_t>(graph_.ranks.items.size()));
        task.ranks = static_cast<std::int32_t>(graph_.ranks.rows()) - 1;
        task.lane = lane_of_ranks(devices);
        rank_lanes_.emplace(devices, std::pair{task.ranks, task.lane});
    } else {
        std::tie(task.ranks, task.lane) = known->second;
    }
}

bool TaskGraphBuilder::has_rank(TaskId collective, int device) const {
    const std::int32_t row = task(collective).ranks;
    if (row < 0) return false;
    const auto ranks = graph_.ranks[static_cast<std::size_t>(row)];
    return std::find(ranks.begin(), ranks.end(), device) != ranks.end();
}

/// Only what belongs to reshards and sums can happen several times to one tensor on one device.
void TaskGraphBuilder::number(TaskId id) {
    Task& task = graph_.tasks[static_cast<std::size_t>(id)];
    if (!is_communication(task.kind) && !is_local_move(task.kind)) return;
    const auto kind = static_cast<std::int64_t>(task.kind) * 64 +
                      static_cast<std::int64_t>(task.collective) * 4 + (task.updated ? 2 : 0) +
                      (task.gradient ? 1 : 0);
    task.ordinal =
        named_[{kind, task.tensor.value, task.device, task.to, task.micro_batch, task.part}]++;
}

std::int32_t TaskGraphBuilder::add_lane(std::vector<std::int32_t> resources) {
    std::sort(resources.begin(), resources.end());
    resources.erase(std::unique(resources.begin(), resources.end()), resources.end());
    graph_.lanes.items.insert(graph_.lanes.items.end(), resources.begin(), resources.end());
    graph_.lanes.offsets.push_back(static_cast<std::uint32_t>(graph_.lanes.items.size()));
    return static_cast<std::int32_t>(graph_.lanes.rows()) - 1;
}

std::int32_t TaskGraphBuilder::lane_of_copy(int from, int to) {
    const std::int64_t key = std::int64_t{from} * graph_.device_count + to;
    const auto at =
        std::lower_bound(copy_lanes_.begin(), copy_lanes_.end(), std::pair{key, std::int32_t{0}});
    if (at != copy_lanes_.end() && at->first == key) return at->second;
    std::vector<std::int32_t> resources{send_row(from), receive_row(to)};
    for (const std::int32_t channel : problem_.machine().route(from, to).channels) {
        resources.push_back(3 * graph_.device_count + channel);
    }
    const std::int32_t lane = add_lane(std::move(resources));
    copy_lanes_.insert(at, {key, lane});
    return lane;
}

/// Both communication rows of every rank, and the channels of the ring through them, which every
/// algorithm is taken to keep busy.
std::int32_t TaskGraphBuilder::lane_of_ranks(const std::vector<int>& devices) {
    std::vector<std::int32_t> resources;
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const int next = devices[(i + 1) % devices.size()];
        resources.push_back(send_row(devices[i]));
        resources.push_back(receive_row(devices[i]));
        for (const std::int32_t channel : problem_.machine().route(devices[i], next).channels) {
            resources.push_back(3 * graph_.device_count + channel);
        }
    }
    return add_lane(std::move(resources));
}

void TaskGraphBuilder::add_edge(TaskId before, TaskId after) {
    if (before >= 0) edges_.emplace_back(before, after);
}

std::int32_t TaskGraphBuilder::add_buffer(const Buffer& buffer) {
    graph_.buffers.push_back(buffer);
    is_read_.push_back(0);
    const auto id = static_cast<std::int32_t>(graph_.buffers.size() - 1);
    if (buffer.writer >= 0) writes_.emplace_back(buffer.writer, id);
    return id;
}

void TaskGraphBuilder::add_read(TaskId task, std::int32_t buffer) {
    for (; buffer >= 0; buffer = this->buffer(buffer).root) {
        reads_.emplace_back(task, buffer);
        is_read_[static_cast<std::size_t>(buffer)] = 1;
    }
}

void TaskGraphBuilder::add_persistent(int device, Bytes bytes) {
    graph_.persistent[static_cast<std::size_t>(device)] += bytes;
}

/// Puts one task in place of each join's members, the first of them; the others leave no gap.
void TaskGraphBuilder::join_collectives() {
    const std::vector<Join> joins = find_joins(problem_, graph_.tasks, graph_.ranks, edges_);
    if (joins.empty()) return;
    std::vector<TaskId> in_place_of(graph_.size(), -1);
    for (const Join& join : joins) {
        Task& task = graph_.tasks[static_cast<std::size_t>(join.members[0])];
        const bool renamed = task.collective != join.kind;
        task.collective = join.kind;
        task.joined = static_cast<std::int32_t>(join.members.size()) - 1;
        task.bytes = join.bytes;
        task.duration = join.price.time;
        task.algorithm = join.price.algorithm;
        task.protocol = join.price.protocol;
        set_ranks(task, join.devices);
        if (renamed) number(join.members[0]);
        for (std::size_t i = 1; i < join.members.size(); ++i) {
            in_place_of[static_cast<std::size_t>(join.members[i])] = join.members[0];
        }
    }
    std::vector<TaskId> id(graph_.size());  // now, by what it was
    TaskId kept = 0;
    for (std::size_t i = 0; i < id.size(); ++i) {
        const TaskId first = in_place_of[i];
        id[i] = first < 0 ? kept : id[static_cast<std::size_t>(first)];
        if (first >= 0) continue;
        graph_.tasks[static_cast<std::size_t>(kept++)] = graph_.tasks[i];
    }
    graph_.tasks.resize(static_cast<std::size_t>(kept));
    const auto renumber = [&id](TaskId& task) { task = id[static_cast<std::size_t>(task)]; };
    for (auto& [before, after] : edges_) {
        renumber(before);
        renumber(after);
    }
    for (auto& [task, buffer] : reads_) renumber(task);
    for (auto& [task, buffer] : writes_) renumber(task);
    for (Buffer& buffer : graph_.buffers) {
        if (buffer.writer >= 0) renumber(buffer.writer);
    }
}

TaskGraph TaskGraphBuilder::finish() {
    Int128 total = 0;
    for (const Task& task : graph_.tasks) total += task.duration.raw();
    if (total >= Int128{1} << 62) {
        throw OverflowError(
            "the tasks of one iteration take 2^62 ps (53 days) or more one after the other; "
            "the planner counts in picoseconds and stops there");
    }
    join_collectives();
    const bool scheduled = std::any_of(graph_.tasks.begin(), graph_.tasks.end(),
                                       [](const Task& task) { return task.turn >= 0; });
    if (scheduled) add_control_edges(graph_.tasks, edges_);
    graph_.successors = to_csr(edges_, graph_.size());
    graph_.predecessor_counts.assign(graph_.size(), 0);
    for (const TaskId next : graph_.successors.items) {
        ++graph_.predecessor_counts[static_cast<std::size_t>(next)];
    }
    graph_.reads = to_csr(reads_, graph_.size());
    graph_.writes = to_csr(writes_, graph_.size());
    if (scheduled) spread_turns(graph_);
    return std::move(graph_);
}

}  // namespace partita::plan
