// SPDX-License-Identifier: Apache-2.0
//
// Collects tasks, edges, resource sets and buffers in any order and turns them into the CSR arrays
// of a TaskGraph. One builder per lowering.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "plan/lowering/fused_collectives.h"
#include "plan/problem/problem.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

class TaskGraphBuilder {
public:
    TaskGraphBuilder(const Problem& problem, std::shared_ptr<RegionTable> regions);

    /// `task.resource_set` is set here: the compute row of its device, or all resources of its
    /// route.
    TaskId add_task(Task task);
    /// What `devices` do together, in order of rank: a collective, or anything of one or more.
    TaskId add_group_task(Task task, const std::vector<int>& devices);
    /// `before` may be invalid: nothing to wait for. Repeated edges count once.
    void add_edge(TaskId before, TaskId after);
    BufferId add_buffer(const Buffer& buffer);
    /// `buffer` may be invalid: nothing is read. Reading a view keeps its root alive.
    void add_read(TaskId task, BufferId buffer);
    /// The buffer lies in the bytes of another.
    void make_view(BufferId buffer, BufferId root);
    void add_persistent(const PersistentBytes& kept);
    /// Tasks are of representatives alone: per device the one that stands for it.
    void fold(std::span<const std::int32_t> representatives);
    /// Of a folded graph: how many the task stands for, if not for itself alone.
    void set_copies(TaskId task, std::int32_t copies);
    /// One collective in place of its members, by id; `fused` numbers them as `members` does.
    void add_fused(const std::vector<TaskId>& members, const FusedCollective& fused);

    [[nodiscard]] const Task& task(TaskId id) const { return graph_.tasks[id.index()]; }
    [[nodiscard]] std::size_t task_count() const { return graph_.tasks.size(); }
    /// Of a collective, in order of rank.
    [[nodiscard]] std::span<const std::int32_t> ranks(TaskId collective) const {
        return resource_sets_.ranks()[static_cast<std::size_t>(task(collective).ranks)];
    }
    /// Does the collective have the device among its ranks?
    [[nodiscard]] bool has_rank(TaskId collective, int device) const;
    [[nodiscard]] const Buffer& buffer(BufferId id) const { return graph_.buffers[id.index()]; }
    [[nodiscard]] const RegionTable& regions() const { return *graph_.regions; }

    /// Leaves no gaps where collectives were fused, so that the ids given before change, and adds
    /// the schedule's edges between tasks that have schedule keys (block_order.h).
    /// Throws OverflowError when all tasks one after the other would take 2^62 ps or more.
    [[nodiscard]] TaskGraph finish();

private:
    void set_group(Task& task, const std::vector<int>& devices);
    void remove_fused();

    HostTime host_time_;
    ResourceSets resource_sets_;
    TaskGraph graph_;
    std::vector<std::pair<TaskId, TaskId>> edges_;
    std::vector<std::pair<TaskId, BufferId>> reads_;
    std::vector<std::pair<TaskId, BufferId>> writes_;
    /// Per task: the first member of its fusion, or none; empty: nothing is fused.
    std::vector<TaskId> in_place_of_;
};

}  // namespace partita::plan
