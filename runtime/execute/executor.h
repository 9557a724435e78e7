// SPDX-License-Identifier: Apache-2.0
//
// Runs a program: one thread per worker, iteration after iteration, each worker its tasks in the plan's
// order. A task starts when the tasks that it waits for are done; nobody starts the next iteration before
// everybody has ended this one.
//
// Errors: what a kernel throws becomes DeviceError naming the task, what waits longer than the time-out
// too; the other workers stop at once. Threads: an Executor belongs to the thread that made it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/host_tensor.h"
#include "graph/units.h"
#include "plan/problem.h"
#include "plan/task_graph.h"
#include "runtime/execute/program.h"
#include "runtime/runtime.h"

namespace partita::runtime {

struct ExecutorOptions {
    int threads_per_worker = 1;
    std::chrono::milliseconds timeout{60'000};
    std::chrono::microseconds spin{200};  ///< 0 where workers share cores
};

struct Iteration {
    Time duration;
    std::vector<Interval> steps;  ///< of all workers, worker after worker
    double loss = 0.0;
};

class Executor {
public:
    /// Both must outlive it.
    Executor(const plan::Problem& problem, const plan::TaskGraph& tasks, Program program,
             const Placement& placement, const ExecutorOptions& options);

    /// Runs that many more iterations; each is recorded.
    std::vector<Iteration> run(int iterations);

    /// Per task, from the steps that make it: from the first start to the last end, and the longest step.
    struct TaskTimes {
        std::vector<Interval> intervals;
        std::vector<Time> durations;
    };
    [[nodiscard]] TaskTimes task_times(const Iteration& iteration) const;

    // After an iteration, whole tensors, on the CPU.
    [[nodiscard]] std::vector<graph::HostTensor> outputs() const;
    [[nodiscard]] std::vector<graph::HostTensor> parameters() const;
    [[nodiscard]] std::vector<graph::HostTensor> gradients() const;

private:
    struct Shared;
    void work(std::size_t worker, int iterations, Shared& shared);
    void run_step(std::size_t worker, std::size_t index, Shared& shared);
    void wait_for_predecessors(std::size_t worker, plan::TaskId task, Shared& shared);
    void release(std::size_t task, Shared& shared);
    void clear_values();
    [[nodiscard]] std::string name_of(plan::TaskId task) const;

    const plan::Problem& problem_;
    const plan::TaskGraph& tasks_;
    Program program_;
    const Placement& placement_;
    ExecutorOptions options_;
    std::vector<std::vector<Interval>> intervals_;  ///< per worker and step
};

}  // namespace partita::runtime
