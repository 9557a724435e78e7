// SPDX-License-Identifier: Apache-2.0
//
// The one scheduling rule: repeatedly commit the ready task with the smallest
//
//     (earliest feasible start over all its resources, schedule key, priority, id)
//
// A host that launches tasks (task_graph.h) is one more resource of theirs, occupied by each for
// Task::launch from when it was free, not from when the task starts: it runs ahead.
//
// Commits have monotone starts. Restricted to a resource, the commit sequence is its queue, so the
// same order executed with other durations cannot deadlock (RULES 20). Ready tasks queue per
// resource set, because all tasks of one can start at the same moment; queues wait in one heap
// whose stale keys are only ever too small, so a popped queue is re-keyed until it is the true
// minimum.
//
// Cost: O(log) per task and queue; no allocation inside the loop after the first run.
// Threads: one Simulator per thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// Which ready task of a device goes first (Mayer et al. 2017, section 5):
///     fifo  the one that became ready first
///     rank  the one whose op has the highest frozen priority (op_priorities.h): a change of one op
///           leaves the order of all other tasks alone
///     pct   the one with the longest path to a sink, computation plus communication; a sum is as
///           urgent as the most urgent of what it adds, which needs memory until then
///     msr   the one with most successors that become ready on idle devices by it; then pct
enum class Scheduler : std::uint8_t { fifo, rank, pct, msr };
std::string_view name_of(Scheduler scheduler);
std::optional<Scheduler> scheduler_from_name(std::string_view name);

struct Timeline {
    Time makespan;
    std::vector<Time> start;           ///< per task
    std::vector<TaskId> commit_order;  ///< all tasks
    std::vector<Time> busy;            ///< of all devices: sum of their compute tasks
};

/// Longest path from the start of each task to the end of the graph, over durations alone.
std::vector<Time> path_to_sink(const TaskGraph& graph);

/// Throws std::logic_error when dependencies are cyclic (a bug of lowering; verify() proves it).
Timeline simulate(const TaskGraph& graph, Scheduler scheduler);

/// The timeline of a given global order: each task starts as early as its predecessors and the
/// earlier tasks of its resources allow. nullopt when `order` is no permutation of the tasks that
/// respects the dependencies.
std::optional<Timeline> replay(const TaskGraph& graph, const std::vector<TaskId>& order);

}  // namespace partita::plan
