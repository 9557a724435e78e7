// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/executor.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "graph/error.h"
#include "runtime/execute/memory_meter.h"
#include "runtime/execute/patch.h"
#include "runtime/execute/task_board.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

using graph::TensorId;
using plan::TaskId;
using Clock = std::chrono::steady_clock;

namespace {

Time since(Clock::time_point start) {
    return nanoseconds(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

/// On the n-th of those that this process may use. Only makes a difference in time, so a refusal counts for
/// nothing.
void stay_on_core(std::size_t n) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (!CPU_ISSET(core, &allowed) || n-- > 0) continue;
        cpu_set_t own;
        CPU_ZERO(&own);
        CPU_SET(core, &own);
        pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
        return;
    }
}

/// Pieces put together; later ones win where they overlap.
class Assembly {
public:
    Assembly(const graph::OpGraph& graph, const plan::RegionTable& regions)
        : graph_(graph), regions_(regions) {}

    void add(TensorId t, std::int32_t region, const at::Tensor& value) {
        const graph::Tensor& tensor = graph_.tensor(t);
        auto& whole = wholes_[t.value];
        const graph::Region all = graph::whole_region(tensor.shape);
        if (regions_[region] == all) {  // may be smaller: an extent that depends on data
            whole = value.detach().to(at::kCPU);
            return;
        }
        if (!whole.defined()) whole = at::zeros(tensor.shape, value.options().device(at::kCPU));
        Patch(regions_[region], all).copy(whole, value);
    }

    [[nodiscard]] std::vector<graph::HostTensor> take() const {
        std::vector<graph::HostTensor> tensors;
        for (const auto& [id, whole] : wholes_) {
            const graph::Tensor& tensor = graph_.tensor(TensorId{id});
            tensors.push_back(to_host(whole, tensor.dtype));
            tensors.back().name = tensor.name;
        }
        return tensors;
    }

private:
    const graph::OpGraph& graph_;
    const plan::RegionTable& regions_;
    std::map<std::uint32_t, at::Tensor> wholes_;
};

}  // namespace

/// What the workers of one run() share.
struct Executor::Shared {
    Shared(const Program& program, std::ptrdiff_t count, const ExecutorOptions& options)
        : board(program.shares, options.spin),
          uses(std::make_unique<std::atomic<int>[]>(program.uses.size())),
          workers(count),
          barrier(count + 1) {}

    /// A barrier may have put its threads to sleep: the iteration begins when the last one is awake.
    void line_up() {
        if (lined_up.fetch_add(1, std::memory_order_acq_rel) + 1 == workers) {
            start = Clock::now();
            begun.store(true, std::memory_order_release);
        }
        while (!begun.load(std::memory_order_acquire)) std::this_thread::yield();
    }

    void fail(std::exception_ptr what) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::move(what);
        board.stop();
    }

    TaskBoard board;
    std::unique_ptr<std::atomic<int>[]> uses;  ///< per buffer: readers that have not ended
    std::ptrdiff_t workers;
    std::barrier<> barrier;  ///< of the workers and of who counts iterations
    bool over = false;       ///< no iteration follows
    // of the iteration
    std::atomic<std::ptrdiff_t> lined_up{0};
    std::atomic<bool> begun{false};
    Clock::time_point start;
    std::mutex mutex;
    std::exception_ptr error;
};

Executor::Executor(const plan::Problem& problem, const plan::TaskGraph& tasks, Program program,
                   const Placement& placement, const ExecutorOptions& options)
    : problem_(problem),
      tasks_(tasks),
      program_(std::move(program)),
      placement_(placement),
      options_(options) {
    for (const auto& steps : program_.steps) ends_.emplace_back(steps.size());
}

std::vector<Iteration> Executor::run(int iterations, const Enough& enough) {
    const std::size_t workers = program_.steps.size();
    Shared shared(program_, static_cast<std::ptrdiff_t>(workers), options_);
    std::vector<std::jthread> threads;
    for (std::size_t w = 0; w < workers; ++w) {
        threads.emplace_back([this, w, &shared] { work(w, shared); });
    }
    std::vector<Iteration> done;
    for (int i = 0; i < iterations && !shared.error; ++i) {
        if (enough && !done.empty() && enough(done)) break;
        prepare(shared);
        shared.barrier.arrive_and_wait();  // begins
        shared.barrier.arrive_and_wait();  // has ended
        if (!shared.error) done.push_back(recorded());
    }
    shared.over = true;
    shared.barrier.arrive_and_wait();
    threads.clear();  // joins
    if (shared.error) std::rethrow_exception(shared.error);
    return done;
}

void Executor::prepare(Shared& shared) {
    clear_values();
    shared.board.clear();
    shared.lined_up.store(0, std::memory_order_relaxed);
    shared.begun.store(false, std::memory_order_relaxed);
    for (std::size_t b = 0; b < program_.uses.size(); ++b) {
        shared.uses[b].store(program_.uses[b], std::memory_order_relaxed);
    }
}

/// Of the iteration that has ended.
Iteration Executor::recorded() const {
    Iteration iteration;
    for (const auto& ends : ends_) {
        iteration.ends.insert(iteration.ends.end(), ends.begin(), ends.end());
        if (!ends.empty()) iteration.duration = std::max(iteration.duration, ends.back());
    }
    for (const LossWork* loss : program_.losses) iteration.loss += loss->value();
    return iteration;
}

/// What the iteration before has left: outputs.
void Executor::clear_values() {
    for (std::size_t b = 0; b < program_.store.values.size(); ++b) {
        if (program_.lasting[b] == 0) program_.store.values[b] = at::Tensor();
    }
}

void Executor::work(std::size_t worker, Shared& shared) {
    if (options_.pin) stay_on_core(worker);
    at::set_num_threads(options_.threads_per_worker);
    const at::NoGradGuard no_grad;
    while (true) {
        shared.barrier.arrive_and_wait();
        if (shared.over) return;
        shared.line_up();
        try {
            for (std::size_t s = 0; s < program_.steps[worker].size(); ++s) {
                if (shared.board.stopped()) break;
                run_step(worker, s, shared);
            }
        } catch (const Stopped&) {
            shared.board.stop();  // it has been; who failed has said why
        } catch (...) {
            shared.fail(std::current_exception());
        }
        shared.barrier.arrive_and_wait();
    }
}

void Executor::run_step(std::size_t worker, std::size_t index, Shared& shared) {
    const Step& step = program_.steps[worker][index];
    wait_for_predecessors(worker, step.task, shared);
    try {
        meter_device(step.device);
        step.work->run(program_.store);
    } catch (const c10::Error& error) {
        throw DeviceError(name_of(step.task) + ": " + error.what_without_backtrace());
    } catch (const std::exception& error) {
        throw DeviceError(name_of(step.task) + ": " + error.what());
    }
    ends_[worker][index] = since(shared.start);
    const auto task = static_cast<std::size_t>(step.task);
    if (shared.board.finish(task)) release(task, shared);
}

/// As messages name it.
std::string Executor::name_of(TaskId task) const {
    return "task " + std::to_string(task) + " '" +
           task_name(problem_, tasks_.tasks[static_cast<std::size_t>(task)]) + "'";
}

void Executor::wait_for_predecessors(std::size_t worker, TaskId task, Shared& shared) {
    const auto until = Clock::now() + options_.timeout;
    for (const TaskId before : program_.predecessors[static_cast<std::size_t>(task)]) {
        if (shared.board.is_done(static_cast<std::size_t>(before))) continue;
        if (shared.board.wait(static_cast<std::size_t>(before), until)) continue;
        throw DeviceError("worker " + std::to_string(worker) + ", " + name_of(task) +
                          ": waited longer than " + std::to_string(options_.timeout.count()) +
                          " ms for " + name_of(before) + ". Give it more time with --timeout.");
    }
}

/// What only this task still needed, and what it made for nobody.
void Executor::release(std::size_t task, Shared& shared) {
    for (const std::int32_t b : tasks_.reads[task]) {
        const auto at = static_cast<std::size_t>(b);
        if (shared.uses[at].fetch_sub(1, std::memory_order_acq_rel) == 1 &&
            program_.lasting[at] == 0) {
            program_.store[b] = at::Tensor();
        }
    }
    for (const std::int32_t b : tasks_.writes[task]) {
        if (program_.uses[static_cast<std::size_t>(b)] == 0) program_.store[b] = at::Tensor();
    }
}

std::vector<plan::TaskRun> Executor::task_runs(const Iteration& iteration) const {
    std::vector<Time> done(tasks_.size());
    std::size_t next = 0;
    for (const auto& steps : program_.steps) {
        for (const Step& step : steps) {
            Time& last = done[static_cast<std::size_t>(step.task)];
            last = std::max(last, iteration.ends[next++]);
        }
    }
    std::vector<plan::TaskRun> runs;
    for (const auto& steps : program_.steps) {
        Time before;
        for (const Step& step : steps) {
            plan::TaskRun run{.task = step.task,
                              .device = step.device,
                              .start = before,
                              .end = iteration.ends[runs.size()]};
            for (const TaskId task : program_.predecessors[static_cast<std::size_t>(step.task)]) {
                run.start = std::max(run.start, done[static_cast<std::size_t>(task)]);
            }
            before = run.end;
            runs.push_back(run);
        }
    }
    return runs;
}

std::vector<Time> Executor::durations(const Iteration& iteration) const {
    std::vector<Time> durations(tasks_.size());
    for (const plan::TaskRun& run : task_runs(iteration)) {
        Time& longest = durations[static_cast<std::size_t>(run.task)];
        longest = std::max(longest, run.end - run.start);
    }
    return durations;
}

std::vector<graph::HostTensor> Executor::outputs() const {
    Assembly assembly(problem_.graph(), *tasks_.regions);
    for (const Found& found : program_.outputs) {
        assembly.add(found.tensor, found.region, program_.store[found.buffer]);
    }
    return assembly.take();
}

std::vector<graph::HostTensor> Executor::parameters() const {
    Assembly assembly(problem_.graph(), *tasks_.regions);
    for (const Found& found : program_.parameters) {
        assembly.add(found.tensor, found.region, program_.store[found.buffer]);
    }
    return assembly.take();
}

std::vector<graph::HostTensor> Executor::gradients() const {
    Assembly assembly(problem_.graph(), *tasks_.regions);
    for (const FoundGradient& found : program_.gradients) {
        assembly.add(found.tensor, found.region, found.update->gradient());
    }
    return assembly.take();
}

}  // namespace partita::runtime
