// SPDX-License-Identifier: Apache-2.0
//
// What is recorded of one iteration of a program, and the times of its tasks by that.
//
// A step starts when its lane (lanes.h) has ended the one before and all that it waits for is done,
// or ready to be sent by another process: what the executor does for it, and waking up for it, is
// part of it. So the durations along the path that ends last add up to the iteration's.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/units.h"
#include "plan/tasks/task_run.h"
#include "runtime/execute/driver.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

struct Iteration {
    /// From when all workers are there to the end of the last step, of all processes.
    Time duration;
    std::vector<Time> ends;  ///< of the steps of all workers here, worker after worker
    std::vector<Time> met;   ///< when those that a step met were ready; empty: there is one process
    double loss = 0.0;
};

/// The steps of an iteration here, worker after worker. `drivers`: per worker.
std::vector<plan::TaskRun> task_runs(const Program& program,
                                     std::span<const std::unique_ptr<Driver>> drivers,
                                     const Iteration& iteration);

/// Per task, of its longest step.
std::vector<Time> durations(std::span<const plan::TaskRun> runs, std::size_t tasks);

/// The median of the iterations, five or more, lies within 1 % of the true one, by the spread of
/// their middle half: that of a median of n is about 1.25 deviations over the root of n, and a
/// quartile lies 0.67 deviations off.
bool is_stable(std::span<const Iteration> iterations);

}  // namespace partita::runtime
