// SPDX-License-Identifier: Apache-2.0
//
// Collects tasks, edges, lanes and buffers in any order and turns them into the CSR arrays of a
// TaskGraph. One builder per lowering.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "plan/problem.h"
#include "plan/task_graph.h"

namespace partita::plan {

class TaskGraphBuilder {
public:
    TaskGraphBuilder(const Problem& problem, std::shared_ptr<RegionTable> regions);

    /// `task.lane` is set here: the compute row of its device, or all resources of its route. So is
    /// `task.ordinal`.
    TaskId add_task(Task task);
    /// A task of kind collective among `devices`, in order of rank.
    TaskId add_collective(Task task, const std::vector<int>& devices);
    /// `before` may be -1: nothing to wait for. Repeated edges count once.
    void add_edge(TaskId before, TaskId after);
    std::int32_t add_buffer(const Buffer& buffer);
    /// `buffer` may be -1: nothing is read. Reading a view keeps its root alive.
    void add_read(TaskId task, std::int32_t buffer);
    /// Does any task read it so far?
    [[nodiscard]] bool is_read(std::int32_t buffer) const {
        return is_read_[static_cast<std::size_t>(buffer)] != 0;
    }
    void add_persistent(int device, Bytes bytes);

    [[nodiscard]] const Task& task(TaskId id) const {
        return graph_.tasks[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] TaskId task_count() const { return static_cast<TaskId>(graph_.tasks.size()); }
    /// Does the collective have the device among its ranks?
    [[nodiscard]] bool has_rank(TaskId collective, int device) const;
    [[nodiscard]] const Buffer& buffer(std::int32_t id) const {
        return graph_.buffers[static_cast<std::size_t>(id)];
    }
    [[nodiscard]] RegionTable& regions() { return *regions_; }
    [[nodiscard]] const RegionTable& regions() const { return *regions_; }

    /// Joins collectives that move together (join.h), so that the ids given before change, and adds
    /// the schedule's edges between tasks that have turns (turns.h).
    /// Throws OverflowError when all tasks one after the other would take 2^62 ps or more.
    [[nodiscard]] TaskGraph finish();

private:
    std::int32_t lane_of_copy(int from, int to);
    std::int32_t lane_of_ranks(const std::vector<int>& devices);
    std::int32_t add_lane(std::vector<std::int32_t> resources);
    void set_ranks(Task& task, const std::vector<int>& devices);
    void number(TaskId id);
    void join_collectives();

    const Problem& problem_;
    std::shared_ptr<RegionTable> regions_;
    TaskGraph graph_;
    std::vector<std::pair<TaskId, TaskId>> edges_;
    std::vector<std::pair<TaskId, std::int32_t>> reads_;
    std::vector<char> is_read_;  ///< per buffer
    std::vector<std::pair<TaskId, std::int32_t>> writes_;
    std::vector<std::pair<std::int64_t, std::int32_t>> copy_lanes_;  ///< sorted (from*n+to, lane)
    std::map<std::vector<int>, std::pair<std::int32_t, std::int32_t>> rank_lanes_;  ///< row, lane
    /// How many tasks of a name there are: (kind, tensor, gradient, device, ...).
    std::map<std::array<std::int64_t, 6>, std::int32_t> named_;
};

}  // namespace partita::plan
