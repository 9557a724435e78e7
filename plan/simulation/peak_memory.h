// SPDX-License-Identifier: Apache-2.0
//
// Peak memory per device: a function of the order alone, not of times, and an upper bound of what
// any execution in that order needs.
//
// A task's buffers are allocated when it is committed. A buffer whose last user is task X is given
// back when the next task on any resource of X is committed: that commit proves that X has ended
// before the new task starts, and later commits start later still. (Freeing at X's own commit
// would be unsound: a copy may run on while the device computes.)
#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "plan/tasks/memory_kind.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// What each device that has tasks of its own holds all along.
std::vector<Bytes> persistent_bytes(const TaskGraph& graph);

/// Peak bytes of all devices, of folded graphs too, for a commit order (a permutation of all tasks).
std::vector<Bytes> peak_memory(const TaskGraph& graph, std::span<const TaskId> order);

/// The same, told apart: what each device holds when it first holds most.
std::vector<MemoryByKind> peak_memory_by_kind(const TaskGraph& graph,
                                              std::span<const TaskId> order);

/// One step of the memory of a device: from the commit of `task` on it holds `bytes`.
struct MemoryStep {
    TaskId task;
    std::int32_t device = 0;
    Bytes bytes;
};

/// The whole course, for traces and reports, of devices that have tasks of their own; its maxima are
/// peak_memory().
std::vector<MemoryStep> memory_course(const TaskGraph& graph, std::span<const TaskId> order);

}  // namespace partita::plan
