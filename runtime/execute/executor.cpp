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

#include "base/error.h"
#include "runtime/execute/memory_meter.h"
#include "runtime/execute/nccl_groups.h"
#include "runtime/execute/task_board.h"
#include "runtime/kernels/expected.h"

namespace partita::runtime {

using plan::TaskId;
using Clock = std::chrono::steady_clock;

namespace {

/// On the n-th of those that this process may use. Only makes a difference in time, so a refusal
/// counts for nothing.
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

}  // namespace

/// What the workers of one run() share.
struct Executor::Shared {
    Shared(const Program& program, std::ptrdiff_t count, const ExecutorOptions& options)
        : exchange(program.exchange.get()),
          nccl(program.nccl.get()),
          board(program.shares, options.spin),
          uses(std::make_unique<std::atomic<int>[]>(program.uses.size())),
          workers(count),
          barrier(count + 1) {}

    /// A barrier may have put its threads to sleep: the iteration begins when the last one is
    /// awake.
    void line_up() {
        if (lined_up.fetch_add(1, std::memory_order_acq_rel) + 1 == workers) {
            start = Clock::now();
            if (exchange != nullptr) exchange->set_start(start);
            begun.store(true, std::memory_order_release);
        }
        while (!begun.load(std::memory_order_acquire)) std::this_thread::yield();
    }

    void fail(std::exception_ptr what) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::move(what);
        board.stop();
        if (exchange != nullptr) exchange->stop(error);
        nccl->stop("another worker failed");
    }

    Exchange* exchange;  ///< with other processes; or null
    NcclGroups* nccl;
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
    drivers_ = drivers_for(program_, tasks_, placement_);
    if (exchange() == nullptr) return;
    for (const auto& steps : program_.steps) met_.emplace_back(steps.size());
    exchange()->stay_awake(options_.spin);
    const auto named = [&](TaskId task) { return task.valid() ? text_of(task) : "no task"; };
    exchange()->name_ends(named(program_.first), named(program_.last));
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
        try {
            prepare(shared);
        } catch (...) {
            shared.fail(std::current_exception());
            break;
        }
        shared.barrier.arrive_and_wait();  // begins
        shared.barrier.arrive_and_wait();  // has ended
        if (!shared.error) record(shared, done);
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
    if (exchange() != nullptr) exchange()->begin_iteration();
}

/// Of the iteration that has ended.
void Executor::record(Shared& shared, std::vector<Iteration>& done) {
    Iteration iteration;
    for (const auto& driver : drivers_) {
        const std::span<const Time> ends = driver->ends();
        iteration.ends.insert(iteration.ends.end(), ends.begin(), ends.end());
        for (const Time end : ends) iteration.duration = std::max(iteration.duration, end);
    }
    for (const auto& met : met_) {
        iteration.met.insert(iteration.met.end(), met.begin(), met.end());
    }
    for (const LossWork* loss : program_.losses) iteration.loss += loss->value();
    try {
        if (exchange() != nullptr) exchange()->end_iteration(iteration.duration, iteration.loss);
    } catch (...) {
        return shared.fail(std::current_exception());
    }
    done.push_back(std::move(iteration));
}

/// What the iteration before has left: outputs.
void Executor::clear_values() {
    for (std::size_t b = 0; b < program_.store.values.size(); ++b) {
        if (program_.lasting[b] == 0) program_.store.values[b] = at::Tensor();
    }
}

void Executor::work(std::size_t worker, Shared& shared) {
    if (options_.pin) stay_on_core(static_cast<std::size_t>(options_.first_core) + worker);
    at::set_num_threads(options_.threads_per_worker);
    const at::NoGradGuard no_grad;
    const auto guarded = [&](const auto& act) {
        try {
            act();
        } catch (const Stopped&) {
            shared.board.stop();  // it has been; who failed has said why
        } catch (const c10::Error& error) {
            const std::string what = error.what_without_backtrace();
            shared.fail(std::make_exception_ptr(DeviceError(worker_name(worker) + ": " + what)));
        } catch (...) {
            shared.fail(std::current_exception());
        }
    };
    bool is_attached = false;
    while (true) {
        shared.barrier.arrive_and_wait();
        if (shared.over) return;
        if (!std::exchange(is_attached, true)) guarded([&] { drivers_[worker]->attach(); });
        shared.line_up();
        guarded([&] { run_steps(worker, shared); });
        shared.barrier.arrive_and_wait();
    }
}

void Executor::run_steps(std::size_t worker, Shared& shared) {
    if (shared.board.stopped()) return;
    drivers_[worker]->begin(shared.start);
    for (std::size_t s = 0; s < program_.steps[worker].size(); ++s) {
        if (shared.board.stopped()) return;
        run_step(worker, s, shared);
    }
    finish_steps(worker, shared);
}

/// On a device that only was handed them.
void Executor::finish_steps(std::size_t worker, Shared& shared) {
    auto until = Clock::now() + options_.timeout;
    if (options_.limit) until = std::min(until, shared.start + *options_.limit);
    const auto late = drivers_[worker]->end(until, [&] { return shared.board.stopped(); });
    if (!late) return;
    if (shared.board.stopped()) throw Stopped();
    const TaskId task = program_.steps[worker][*late].task;
    check_limit(task, shared);
    throw DeviceError(name_of(task) + ": has not ended within " +
                      std::to_string(options_.timeout.count()) +
                      " ms. Give it more time with --timeout.");
}

void Executor::run_step(std::size_t worker, std::size_t index, Shared& shared) {
    const Step& step = program_.steps[worker][index];
    wait_for_predecessors(worker, step.task, shared);
    check_limit(step.task, shared);
    Time met;
    Driver& driver = *drivers_[worker];
    wait_for_gpus(worker, index, shared);
    try {
        meter_device(step.device);
        driver.enter(index);
        if (!step.messages.empty()) {
            const at::Device device = placement_.device[static_cast<std::size_t>(step.device)];
            met = exchange()->receive(step.messages, device, program_.store);
        }
        const TimeLimit limit(options_.timeout);
        step.work->run(program_.store);
        driver.leave(index, program_.store);
    } catch (const InputError& error) {
        throw InputError(name_of(step.task) + ": " + error.what());
    } catch (const c10::Error& error) {
        throw DeviceError(name_of(step.task) + ": " + error.what_without_backtrace());
    } catch (const std::exception& error) {
        throw DeviceError(name_of(step.task) + ": " + error.what());
    }
    if (exchange() != nullptr) met_[worker][index] = std::max(met, step.work->met());
    const std::size_t task = step.task.index();
    if (shared.board.finish(task)) release(task, shared);
}

/// As messages name it.
std::string Executor::name_of(TaskId task) const {
    return who() + text_of(task);
}

std::string Executor::text_of(TaskId task) const {
    return "task " + std::to_string(task.value) + " '" +
           task_name(problem_, tasks_.tasks[task.index()]) + "'";
}

/// "worker 1", of several processes "rank 0 of 2, worker 1".
std::string Executor::worker_name(std::size_t worker) const {
    return who() + "worker " + std::to_string(worker);
}

/// "rank 1 of 4, ", of several processes.
std::string Executor::who() const {
    if (exchange() == nullptr) return "";
    const Peers& peers = exchange()->peers();
    return "rank " + std::to_string(peers.rank()) + " of " + std::to_string(peers.size()) + ", ";
}

void Executor::wait_for_predecessors(std::size_t worker, TaskId task, Shared& shared) {
    // Who waits for another process says which; who waits for him gives him the time to.
    const auto patience = exchange() == nullptr ? options_.timeout : 2 * options_.timeout;
    auto until = Clock::now() + patience;
    if (options_.limit) until = std::min(until, shared.start + *options_.limit);
    for (const TaskId before : program_.predecessors[task.index()]) {
        if (shared.board.is_done(before.index())) continue;
        if (shared.board.wait(before.index(), until)) continue;
        check_limit(task, shared);
        throw DeviceError(worker_name(worker) + ", " + text_of(task) + ": waited longer than " +
                          std::to_string(patience.count()) + " ms for " + text_of(before) +
                          ". Give it more time with --timeout.");
    }
}

/// On a CPU: what is done on the board may only have been handed to a GPU.
void Executor::wait_for_gpus(std::size_t worker, std::size_t index, Shared& shared) {
    auto until = Clock::now() + options_.timeout;
    if (options_.limit) until = std::min(until, shared.start + *options_.limit);
    if (drivers_[worker]->wait_for_gpus(index, until, [&] { return shared.board.stopped(); })) {
        return;
    }
    if (shared.board.stopped()) throw Stopped();
    const TaskId task = program_.steps[worker][index].task;
    check_limit(task, shared);
    throw DeviceError(worker_name(worker) + ", " + text_of(task) + ": waited longer than " +
                      std::to_string(options_.timeout.count()) +
                      " ms for a GPU. Give it more time with --timeout.");
}

void Executor::check_limit(TaskId task, const Shared& shared) const {
    if (!options_.limit || Clock::now() < shared.start + *options_.limit) return;
    throw DeviceError(name_of(task) + ": not done when the iteration had taken " +
                      std::to_string(options_.limit->count()) + " ms, the most that it may take.");
}

/// What only this task still needed, and what it made for nobody.
void Executor::release(std::size_t task, Shared& shared) {
    for (const plan::BufferId b : tasks_.reads[task]) {
        const std::size_t at = b.index();
        if (shared.uses[at].fetch_sub(1, std::memory_order_acq_rel) == 1 &&
            program_.lasting[at] == 0) {
            program_.store[b] = at::Tensor();
        }
    }
    for (const plan::BufferId b : tasks_.writes[task]) {
        if (program_.uses[b.index()] == 0) program_.store[b] = at::Tensor();
    }
    if (exchange() != nullptr) exchange()->finish(task, program_.store);
}

std::vector<plan::TaskRun> Executor::task_runs(const Iteration& iteration) const {
    return runtime::task_runs(program_, drivers_, iteration);
}

std::vector<Time> Executor::durations(const Iteration& iteration) const {
    return runtime::durations(task_runs(iteration), tasks_.size());
}

void Executor::set_rate(double rate) {
    for (UpdateWork* const update : program_.updates) update->set_rate(rate);
}

/// Those of all processes, on rank 0.
std::vector<Piece> Executor::of_all(std::vector<Piece> pieces) const {
    if (exchange() == nullptr) return pieces;
    const Peers& peers = exchange()->peers();
    peers.world->set_timeout(peers.patience);  // rank 0 hears them one after the other
    return gathered(*peers.world, std::move(pieces));
}

std::vector<graph::HostTensor> Executor::whole(std::vector<Piece> pieces) const {
    return assembled(problem_.graph(), regions(), of_all(std::move(pieces)));
}

std::vector<graph::HostTensor> Executor::outputs() const {
    std::vector<Piece> pieces;
    for (const Found& found : program_.outputs) {
        pieces.push_back({found.tensor, found.region, found.place, program_.store[found.buffer]});
    }
    return whole(std::move(pieces));
}

std::vector<Piece> Executor::parameter_pieces() const {
    std::vector<Piece> pieces;
    for (const Found& found : program_.parameters) {
        pieces.push_back({found.tensor, found.region, 0, program_.store[found.buffer]});
    }
    return of_all(std::move(pieces));
}

std::vector<graph::HostTensor> Executor::parameters() const {
    return assembled(problem_.graph(), regions(), parameter_pieces());
}

std::vector<graph::HostTensor> Executor::gradients() const {
    std::vector<Piece> pieces;
    for (const FoundGradient& found : program_.gradients) {
        pieces.push_back({found.tensor, found.region, 0, found.update->gradient()});
    }
    return whole(std::move(pieces));
}

}  // namespace partita::runtime
