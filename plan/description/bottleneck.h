// SPDX-License-Identifier: Apache-2.0
//
// What an iteration waits for, read off its timeline.
//
//     bound of a task     the predecessor, or earlier task of one of its resources, that ended last. Where
//                         even that ended before the task starts, it waited for its host to launch it
//     critical path       from the task that ends last back along bounds: its parts add up to the makespan
//     idle time           of a device, gap by gap back along the bounds of the task that ends the gap:
//                         communication for as long as it runs, then what that waited for. Computing and
//                         idle time of a device add up to the makespan
//
// Ties go to the task that was committed first. Of a folded graph what is said is of all devices.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

struct TimeOf {
    std::string what;  ///< "forward MatMul", "all-reduce of gradients", "launching kernels"
    Time time;
};

struct Bottleneck {
    std::vector<TimeOf> critical_path;  ///< most time first; adds up to the makespan
    std::vector<Time> on_path;          ///< per op, what its own work takes of the critical path
    std::vector<TimeOf>
        devices;  ///< of a device on average: "computing", then by what it waits for;
                  ///< adds up to the makespan, up to a picosecond each
};

/// Time: O(tasks + edges).
Bottleneck bottleneck_of(const Problem& problem, const TaskGraph& tasks, const Timeline& timeline);

}  // namespace partita::plan
