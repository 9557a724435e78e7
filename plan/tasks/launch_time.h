// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/units.h"
#include "plan/problem/shortest_task.h"
#include "plan/strategy/host_time.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// What the host of a device takes to launch a task. What takes no time there (Reshape) is no
/// kernel.
inline Time launch_time(const HostTime& host, TaskKind kind, Time duration) {
    if (duration <= kShortestTask) return Time{0};
    if (is_communication(kind)) return host.communication;
    return kind == TaskKind::update ? host.update : host.kernel;
}

}  // namespace partita::plan
