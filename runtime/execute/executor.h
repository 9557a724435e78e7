// SPDX-License-Identifier: Apache-2.0
//
// Runs a program: one thread per worker, iteration after iteration, each worker its tasks in the
// plan's order. A task starts when the tasks that it waits for are done; on a GPU it is handed over
// when those are, and waits for them there (driver.h). Nobody starts the next iteration before
// everything of this one has ended.
//
// Errors: what a kernel throws becomes DeviceError naming the task, what waits longer than the
// time-out too, and an iteration that takes longer than its limit; the other workers stop at once.
// Threads: an Executor belongs to the thread that made it.
//
// Where a program is one of several processes' (exchange.h), iterations begin together, and all
// processes call run() alike.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/units.h"
#include "graph/host_tensor.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"
#include "plan/tasks/task_run.h"
#include "runtime/execute/driver.h"
#include "runtime/execute/iteration.h"
#include "runtime/execute/pieces.h"
#include "runtime/execute/program.h"
#include "runtime/interface/runtime.h"

namespace partita::runtime {

struct ExecutorOptions {
    int threads_per_worker = 1;
    std::chrono::milliseconds timeout{60'000};
    std::optional<std::chrono::milliseconds> limit;  ///< of an iteration; none: no limit
    /// How long a worker waits awake; 0 where workers share cores. A core that has gone to sleep
    /// takes tens of microseconds to wake up, in a virtual machine hundreds.
    std::chrono::microseconds spin{20'000};
    /// A core for each worker that it stays on: what they do is too short for the operating system
    /// to find out that two of them began on one.
    bool pin = false;
    int first_core = 0;  ///< of the first worker, among those that this process may use
};

class Executor {
public:
    /// Both must outlive it.
    Executor(const plan::Problem& problem, const plan::TaskGraph& tasks, Program program,
             const Placement& placement, const ExecutorOptions& options);
    ~Executor() = default;
    Executor(const Executor&) = delete;  // drivers refer to its program
    Executor& operator=(const Executor&) = delete;

    /// Have these been enough iterations?
    using Enough = std::function<bool(std::span<const Iteration>)>;
    /// Runs so many more iterations at most; each is recorded.
    std::vector<Iteration> run(int iterations, const Enough& enough = {});

    /// Of all updates from now on.
    void set_rate(double rate);

    // iteration.h
    [[nodiscard]] std::vector<plan::TaskRun> task_runs(const Iteration& iteration) const;
    [[nodiscard]] std::vector<Time> durations(const Iteration& iteration) const;

    // After an iteration, whole tensors, on the CPU. Of several processes rank 0 gets them and the
    // others nothing; all call it.
    [[nodiscard]] std::vector<graph::HostTensor> outputs() const;
    [[nodiscard]] std::vector<graph::HostTensor> parameters() const;
    [[nodiscard]] std::vector<graph::HostTensor> gradients() const;
    /// Every copy of a parameter or of a part of it that lies on a device: in its memory, when that
    /// is this process's.
    [[nodiscard]] std::vector<Piece> parameter_pieces() const;
    [[nodiscard]] const plan::RegionTable& regions() const { return *tasks_.regions; }
    [[nodiscard]] const graph::OpGraph& graph() const { return problem_.graph(); }

private:
    struct Shared;
    void work(std::size_t worker, Shared& shared);
    void prepare(Shared& shared);
    void record(Shared& shared, std::vector<Iteration>& done);
    void run_steps(std::size_t worker, Shared& shared);
    void run_step(std::size_t worker, std::size_t index, Shared& shared);
    void finish_steps(std::size_t worker, Shared& shared);
    void wait_for_predecessors(std::size_t worker, plan::TaskId task, Shared& shared);
    void wait_for_gpus(std::size_t worker, std::size_t index, Shared& shared);
    void check_limit(plan::TaskId task, const Shared& shared) const;
    void release(std::size_t task, Shared& shared);
    void clear_values();
    [[nodiscard]] Exchange* exchange() const { return program_.exchange.get(); }
    [[nodiscard]] std::vector<Piece> of_all(std::vector<Piece> pieces) const;
    [[nodiscard]] std::vector<graph::HostTensor> whole(std::vector<Piece> pieces) const;
    [[nodiscard]] std::string name_of(plan::TaskId task) const;
    [[nodiscard]] std::string text_of(plan::TaskId task) const;
    [[nodiscard]] std::string worker_name(std::size_t worker) const;
    [[nodiscard]] std::string who() const;

    const plan::Problem& problem_;
    const plan::TaskGraph& tasks_;
    Program program_;
    const Placement& placement_;
    ExecutorOptions options_;
    std::vector<std::unique_ptr<Driver>> drivers_;  ///< per worker
    std::vector<std::vector<Time>> met_;            ///< per worker and step
};

}  // namespace partita::runtime
