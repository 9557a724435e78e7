// SPDX-License-Identifier: Apache-2.0
//
// Collects tasks, edges, lanes and buffers in any order and turns them into the CSR arrays of a
// TaskGraph. One builder per lowering.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "plan/problem.h"
#include "plan/task_graph.h"

namespace partita::plan {

class TaskGraphBuilder {
public:
    explicit TaskGraphBuilder(const Problem& problem);

    /// `task.lane` is set here: the compute row of its device, or all resources of its route.
    TaskId add_task(Task task);
    /// `before` may be -1: nothing to wait for. Repeated edges count once.
    void add_edge(TaskId before, TaskId after);
    /// A buffer that `writer` allocates on its device (a copy: on the destination).
    std::int32_t add_buffer(TaskId writer, Bytes bytes);
    /// `buffer` may be -1: persistent, or the bytes of a workload, which are persistent too.
    void add_read(TaskId task, std::int32_t buffer);
    void add_persistent(int device, Bytes bytes);

    [[nodiscard]] const Task& task(TaskId id) const {
        return graph_.tasks[static_cast<std::size_t>(id)];
    }

    /// Throws OverflowError when all tasks one after the other would take 2^62 ps or more.
    [[nodiscard]] TaskGraph finish();

private:
    std::int32_t lane_of_copy(int from, int to);

    const Problem& problem_;
    TaskGraph graph_;
    std::vector<std::pair<TaskId, TaskId>> edges_;
    std::vector<std::pair<TaskId, std::int32_t>> reads_;
    std::vector<std::pair<TaskId, std::int32_t>> writes_;
    std::vector<std::pair<std::int64_t, std::int32_t>> copy_lanes_;  ///< sorted (from*n+to, lane)
};

}  // namespace partita::plan
