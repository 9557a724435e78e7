// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/execute/executed.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "plan/lower.h"
#include "plan/simulate.h"
#include "runtime/communicate/thread_communicator.h"
#include "runtime/communicate/thread_mailbox.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/program.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

Executed executed(const plan::Problem& problem, const plan::Strategy& strategy,
                  const Sources& sources, int workers, int iterations, const RealOnes& devices) {
    const plan::TaskGraph tasks = plan::lower(problem, strategy);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    Placement placement;
    for (int d = 0; d < problem.device_count(); ++d) {
        placement.worker.push_back(d % workers);
        placement.device.push_back(devices[static_cast<std::size_t>(d) % devices.size()]);
    }
    Program program =
        make_program(problem, strategy, tasks, timeline.commit_order, sources, placement,
                     {.optimizer = {}, .keep_outputs = true, .keep_gradients = true});
    Executor executor(problem, tasks, std::move(program), placement, {});
    Executed result;
    for (const Iteration& iteration : executor.run(iterations)) {
        result.losses.push_back(iteration.loss);
    }
    result.outputs = executor.outputs();
    result.parameters = executor.parameters();
    result.gradients = executor.gradients();
    return result;
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
            placement_.device.push_back(
                processes.devices[static_cast<std::size_t>(d) % processes.devices.size()]);
        }
    }

    Executed run(const plan::Strategy& strategy, const plan::TaskGraph& tasks,
                 std::span<const plan::TaskId> order, const Sources& sources, int iterations) {
        Program program = make_program(
            problem_, strategy, tasks, order, sources, placement_,
            {.optimizer = {}, .keep_outputs = true, .keep_gradients = true, .peers = &peers_});
        Executor executor(problem_, tasks, std::move(program), placement_, {});
        Executed result;
        for (const Iteration& iteration : executor.run(iterations)) {
            result.losses.push_back(iteration.loss);
        }
        result.outputs = executor.outputs();
        result.parameters = executor.parameters();
        result.gradients = executor.gradients();
        return result;
    }

private:
    const plan::Problem& problem_;
    Peers peers_;
    Placement placement_;
};

}  // namespace

Executed executed_by(const OverProcesses& processes, const plan::Problem& problem,
                     const plan::Strategy& strategy, const Sources& sources, int iterations) {
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
