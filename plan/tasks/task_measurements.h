// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of a lowered strategy are measurements of: rows of a profile database from the
// times that tasks took.
//
//     forward, backward      the part's own work; problems price all parts by the largest
//     loss, update, pack     work on the elements that the task writes, or of which it is the loss
//     accumulate             of one contribution: a task that adds n takes n times as long
//     copy, collective       a transfer
//
// A profile made from all tasks of a strategy prices every one of them as measured (a property
// test).
//
// Threads: const. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/profile/profile.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

class TaskMeasurements {
public:
    /// `tasks` is what lower() made of the strategy. References must outlive the object.
    TaskMeasurements(const Problem& problem, const Strategy& strategy, const TaskGraph& tasks);

    /// nullopt: copies, collectives, and ops with given costs.
    [[nodiscard]] std::optional<cost::MeasuredWork> work(TaskId task, cost::Measurement time) const;
    /// nullopt: all but copies and collectives. `variant`: how it was done, "threads".
    [[nodiscard]] std::optional<cost::MeasuredTransfer> transfer(TaskId task,
                                                                 cost::Measurement time,
                                                                 std::string variant) const;
    /// Under which both are kept, of CPU devices that ran with so many threads.
    [[nodiscard]] cost::DeviceKey device(TaskId task, int threads) const;

private:
    [[nodiscard]] cost::MeasuredWork part(const Task& task, cost::Measurement time) const;

    const Problem& problem_;
    const Strategy& strategy_;
    const TaskGraph& tasks_;
    std::vector<std::int64_t> elements_;  ///< per task, of what it writes
};

}  // namespace partita::plan
