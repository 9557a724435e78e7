// SPDX-License-Identifier: Apache-2.0
//
// A schedule in a task graph: schedule keys and control edges. Private to lowering.
//
//     schedule key   place of a task's block in the sequence of its device (pipeline_schedule.h);
//                    forwards, backwards, losses, sums of what these leave on a device have one
//     control edge   from what ends a block on a device to what begins the next one there
//
// Communication and updates are in no block: they run when they can. Among equals those of lower
// keys go first, so they get the key of what they wait for, or else of what waits for them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/legality/stages.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// The schedule keys of a strategy's blocks.
class BlockOrder {
public:
    /// The strategy must keep its schedule: find_schedule_fault().
    BlockOrder(const Problem& problem, const Strategy& strategy);
    /// The same; `pipeline` may be empty if there is no schedule.
    BlockOrder(const Problem& problem, const Policy& policy, Pipeline pipeline);

    [[nodiscard]] const Pipeline& pipeline() const { return pipeline_; }
    [[nodiscard]] bool is_scheduled() const { return !schedule_keys_.empty(); }
    /// -1: the op is in no block, or there is no schedule.
    [[nodiscard]] std::int32_t of(graph::OpId op, int micro_batch, Pass pass) const;

private:
    [[nodiscard]] std::size_t index_of(int position, int micro_batch, Pass pass) const;

    int micro_batches_;
    bool splits_backward_;
    Pipeline pipeline_;                        ///< empty without a schedule
    std::vector<std::int32_t> schedule_keys_;  ///< by position, micro-batch, pass
};

/// Adds the control edges. Every schedule key of a device must depend, if at all, on its earlier
/// ones.
void add_control_edges(const std::vector<Task>& tasks,
                       std::vector<std::pair<TaskId, TaskId>>& edges);

/// Gives a schedule key to the tasks that have none.
void spread_schedule_keys(TaskGraph& graph);

}  // namespace partita::plan
