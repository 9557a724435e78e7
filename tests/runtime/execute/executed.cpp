// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/execute/executed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "plan/lowering/lower.h"
#include "plan/simulation/simulate.h"
#include "runtime/communicate/nccl_communicator.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/nccl_groups.h"
#include "runtime/execute/program.h"
#include "runtime/kernels/tensors.h"
#include "tests/runtime/communicate/thread_communicator.h"
#include "tests/runtime/communicate/thread_mailbox.h"
#include "tests/runtime/pretend_gpus/pretend_gpu.h"

namespace partita::runtime {

namespace {

/// Workers share cores here: as `execute` does then, who waits sleeps at once.
const ExecutorOptions kShared{.spin = std::chrono::microseconds{0}};

/// In NCCL's place: threads' communicators, since the ranks are threads of this process.
class NcclStandIn {
public:
    NcclLibrary library() {
        return {.new_id = [this] { return new_id(); },
                .connect =
                    [this](const std::string& id, int rank, int size, at::Device /*device*/,
                           const CommunicatorOptions& options) {
                        return connected(id, rank, size, options);
                    }};
    }
    int take_count() { return count_.exchange(0); }

private:
    std::string new_id() {
        std::string id = std::to_string(++count_);
        id.resize(kNcclIdBytes);
        return id;
    }

    std::unique_ptr<Communicator> connected(const std::string& id, int rank, int size,
                                            const CommunicatorOptions& options) {
        const std::lock_guard lock(mutex_);
        auto& group = groups_[id];
        if (group.empty()) group = thread_communicators(size, options);
        auto own = std::move(group.at(static_cast<std::size_t>(rank)));
        if (std::ranges::all_of(group, std::logical_not<>())) groups_.erase(id);
        return own;
    }

    std::mutex mutex_;
    std::map<std::string, std::vector<std::unique_ptr<Communicator>>> groups_;
    std::atomic<int> count_{0};
};

NcclStandIn& nccl_stand_in() {
    static NcclStandIn stand_in;
    return stand_in;
}

const NcclLibrary& stand_in_library() {
    static const NcclLibrary kLibrary = nccl_stand_in().library();
    return kLibrary;
}

Executed result_of(Executor& executor, int iterations) {
    Executed result;
    for (const Iteration& iteration : executor.run(iterations)) {
        result.losses.push_back(iteration.loss);
    }
    result.outputs = executor.outputs();
    result.parameters = executor.parameters();
    result.gradients = executor.gradients();
    return result;
}

Executed executed_at(const Placement& placement, const plan::Problem& problem,
                     const plan::Strategy& strategy, const Sources& sources, int iterations) {
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    Program program =
        make_program(problem, strategy, tasks, timeline.commit_order, sources, placement,
                     {.optimizer = {},
                      .keep_outputs = true,
                      .keep_gradients = true,
                      .nccl = &stand_in_library()});
    Executor executor(problem, tasks, std::move(program), placement, kShared);
    return result_of(executor, iterations);
}

}  // namespace

Executed executed(const plan::Problem& problem, const plan::Strategy& strategy,
                  const Sources& sources, int workers, int iterations) {
    Placement placement;
    for (int d = 0; d < problem.device_count(); ++d) {
        placement.worker.push_back(d % workers);
        placement.device.emplace_back(at::kCPU);
    }
    return executed_at(placement, problem, strategy, sources, iterations);
}

namespace {

/// Neighbours on one.
template <class GpuOf>
Placement on_gpus(const GpuOf& gpu, int devices, int gpus) {
    Placement placement{.own_gpus = gpus == devices};
    for (int d = 0; d < devices; ++d) {
        placement.worker.push_back(d * gpus / devices);
        placement.device.push_back(gpu(placement.worker.back()));
    }
    return placement;
}

}  // namespace

Executed executed_on_pretend_gpus(const plan::Problem& problem, const plan::Strategy& strategy,
                                  const Sources& sources, int gpus, int iterations) {
    reset_pretend_gpus();
    return executed_at(on_gpus(pretend_gpu, problem.device_count(), gpus), problem, strategy,
                       sources, iterations);
}

Executed executed_on_cpus_and_pretend_gpus(const plan::Problem& problem,
                                           const plan::Strategy& strategy, const Sources& sources,
                                           int iterations) {
    reset_pretend_gpus();
    Placement placement;
    for (int d = 0; d < problem.device_count(); ++d) {
        placement.worker.push_back(d);
        placement.device.push_back(d % 2 == 0 ? at::Device(at::kCPU) : pretend_gpu(d));
    }
    return executed_at(placement, problem, strategy, sources, iterations);
}

std::vector<std::string> waits_on_pretend_gpus(const plan::Problem& problem,
                                               const plan::Strategy& strategy,
                                               const Sources& sources, int gpus) {
    reset_pretend_gpus();
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    const Placement placement = on_gpus(pretend_gpu, problem.device_count(), gpus);
    Program program = make_program(problem, strategy, tasks, timeline.commit_order, sources,
                                   placement, {.optimizer = {}, .nccl = &stand_in_library()});
    const std::size_t losses = program.losses.size();
    Executor executor(problem, tasks, std::move(program), placement, kShared);
    static_cast<void>(executor.run(1));
    static_cast<void>(take_waits());
    static_cast<void>(executor.run(1));
    std::vector<std::string> waits = take_waits();
    for (std::size_t i = 0; i < losses; ++i) {
        const auto loss = std::ranges::find(waits, "aten::_local_scalar_dense");
        if (loss != waits.end()) waits.erase(loss);
    }
    return waits;
}

int nccl_groups_made() {
    return nccl_stand_in().take_count();
}

Executed executed_on_cuda(const plan::Problem& problem, const plan::Strategy& strategy,
                          const Sources& sources, int gpus, int iterations) {
    at::globalContext().setAllowTF32CuBLAS(false);  // its products have 10 bits
    at::globalContext().setAllowTF32CuDNN(false);
    const auto gpu = [](int index) {
        return at::Device(at::kCUDA, static_cast<at::DeviceIndex>(index));
    };
    return executed_at(on_gpus(gpu, problem.device_count(), gpus), problem, strategy, sources,
                       iterations);
}

namespace {

/// What one process does.
class Process {
public:
    Process(const OverProcesses& processes, int self, Communicator& world, Mailbox& mailbox,
            const std::shared_ptr<Abort>& abort, const plan::Problem& problem)
        : problem_(problem) {
        peers_.world = &world;
        peers_.mailbox = &mailbox;
        peers_.abort = abort;
        peers_.ownership.self = self;
        const int devices = problem.device_count();
        const int most = (devices + processes.count - 1) / processes.count;
        peers_.ownership.workers_of_their_own = processes.workers >= most;
        int mine = 0;
        for (int d = 0; d < devices; ++d) {
            peers_.devices.push_back("device" + std::to_string(d));
            const int at = processes.backwards ? devices - 1 - d : d;
            const int process = at * processes.count / devices;
            peers_.ownership.process_of_device.push_back(process);
            placement_.worker.push_back(process == self ? mine++ % processes.workers : -1);
            placement_.device.push_back(processes.on_pretend_gpus ? pretend_gpu(d) : at::kCPU);
        }
        placement_.own_gpus = processes.on_pretend_gpus;
    }

    Executed run(const plan::Strategy& strategy, const plan::TaskGraph& tasks,
                 std::span<const plan::TaskId> order, const Sources& sources, int iterations) {
        Program program = make_program(problem_, strategy, tasks, order, sources, placement_,
                                       {.optimizer = {},
                                        .keep_outputs = true,
                                        .keep_gradients = true,
                                        .peers = &peers_,
                                        .nccl = &stand_in_library()});
        Executor executor(problem_, tasks, std::move(program), placement_, kShared);
        return result_of(executor, iterations);
    }

private:
    const plan::Problem& problem_;
    Peers peers_;
    Placement placement_;
};

}  // namespace

Executed executed_by(const OverProcesses& processes, const plan::Problem& problem,
                     const plan::Strategy& strategy, const Sources& sources, int iterations) {
    if (processes.on_pretend_gpus) reset_pretend_gpus();
    plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    for (plan::Task& task : tasks.tasks) {
        if (processes.algorithm) task.algorithm = *processes.algorithm;
    }
    const auto abort = std::make_shared<Abort>();
    const auto worlds = thread_communicators(processes.count, {.abort = abort});
    const auto mailboxes = thread_mailboxes(processes.count, abort);
    std::vector<Executed> results(static_cast<std::size_t>(processes.count));
    std::vector<std::exception_ptr> errors(results.size());
    std::vector<std::jthread> threads;
    for (std::size_t self = 0; self < results.size(); ++self) {
        threads.emplace_back([&, self] {
            try {
                Process process(processes, static_cast<int>(self), *worlds[self], *mailboxes[self],
                                abort, problem);
                results[self] =
                    process.run(strategy, tasks, timeline.commit_order, sources, iterations);
            } catch (...) {
                errors[self] = std::current_exception();
                abort->raise("a process failed");
            }
        });
    }
    threads.clear();  // joins
    for (const std::exception_ptr& error : errors) {
        if (error) std::rethrow_exception(error);
    }
    return std::move(results[0]);
}

double largest_difference(const std::vector<graph::HostTensor>& a,
                          const std::vector<graph::HostTensor>& b) {
    constexpr double kNever = std::numeric_limits<double>::infinity();
    if (a.size() != b.size()) return kNever;
    double largest = 0.0;
    for (const graph::HostTensor& expected : b) {
        const auto found = std::ranges::find_if(
            a, [&](const graph::HostTensor& each) { return each.name == expected.name; });
        if (found == a.end() || found->shape != expected.shape) return kNever;
        const at::Tensor x = to_aten(*found).to(at::kDouble);
        const at::Tensor y = to_aten(expected).to(at::kDouble);
        if (x.numel() == 0) continue;
        const double difference = at::max(at::abs(x - y) / (at::abs(y) + 1.0)).item<double>();
        if (!(difference <= largest)) largest = difference;
    }
    return largest;
}

}  // namespace partita::runtime
