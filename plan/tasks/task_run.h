// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/units.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// When a task ran on a device, since the start of its iteration: measured, where a Timeline is
/// predicted. A collective runs on each of its devices, for as long as that one takes.
struct TaskRun {
    TaskId task;
    int device = 0;
    Time start;
    Time end;
};

}  // namespace partita::plan
