// SPDX-License-Identifier: Apache-2.0
//
// Steps on devices that run what they are given later, in streams: CUDA, through what c10 has for
// any such device (c10/core/Event.h, impl/VirtualGuardImpl.h).
//
//     a worker's device          two streams of its own, compute and communication (lanes.h)
//     devices that it reads      a stream each, on which ATen starts copies from there
//     after every step           an event, for those that wait for it and for the clock
//     workers on CPUs beside     wait for the events on the host, and have none: what they did is done
//
// Memory that a stream reads and another one allocated is marked so (recordDataPtrOnStream): the
// allocator waits with giving it out again.
//
// Times are those of the worker's device, from an event at the start of the iteration, when it is
// idle.
#pragma once

#include <memory>
#include <vector>

#include "plan/tasks/task_graph.h"
#include "runtime/execute/driver.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

/// One per worker, each on the device of its plan devices, some of them GPUs, all of one kind.
/// Program and tasks must outlive them.
std::vector<std::unique_ptr<Driver>> stream_drivers(const Program& program,
                                                    const plan::TaskGraph& tasks,
                                                    const Placement& placement);

}  // namespace partita::runtime
