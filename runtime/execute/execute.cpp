// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/execute.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include <c10/util/Exception.h>

#include "base/error.h"
#include "base/statistics.h"
#include "cost/discovery/host.h"
#include "plan/lowering/lower.h"
#include "plan/simulation/peak_memory.h"
#include "plan/simulation/simulate.h"
#include "runtime/execute/check.h"
#include "runtime/execute/devices.h"
#include "runtime/execute/differences.h"
#include "runtime/execute/executor.h"
#include "runtime/execute/memory_meter.h"
#include "runtime/execute/ranks.h"
#include "runtime/kernels/float32_products.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

namespace {

/// A sum's gradient grows with what is summed up, and the update would with it.
double learning_rate(const ExecuteRequest& request) {
    if (request.learning_rate) return *request.learning_rate;
    constexpr double kRate = 1e-2;
    return kRate / static_cast<double>(summed_elements(*request.problem));
}

ExecutorOptions executor_options(const RealDevices& devices, const ExecuteRequest& request) {
    ExecutorOptions options{.threads_per_worker = devices.hardware.threads,
                            .timeout = request.timeout,
                            .limit = request.limit};
    if (!devices.own_cores) options.spin = std::chrono::microseconds{0};
    options.first_core = devices.first_core;
    // Threads of autograd's for GPUs would stay on the core of the worker that starts them.
    const bool on_cpus = std::ranges::all_of(devices.placement.device,
                                             [](at::Device each) { return each.is_cpu(); });
    options.pin = on_cpus && devices.own_cores && devices.hardware.threads == 1 &&
                  devices.placement.workers() > 1;
    return options;
}

/// What executes a plan: this process alone, or as one of several.
struct Setup {
    const Sources& sources;
    const RealDevices& devices;
    const Peers* peers = nullptr;
};

Outcome outcome_of(const ExecuteRequest& request, const plan::Strategy& strategy,
                   const plan::TaskGraph& tasks, std::span<const plan::TaskId> order,
                   const Setup& setup) {
    const RealDevices& devices = setup.devices;
    const ProgramOptions options{
        .keep_outputs = true, .keep_gradients = true, .weigh_sums = true, .peers = setup.peers};
    Executor executor(*request.problem, tasks,
                      make_program(*request.problem, strategy, tasks, order, setup.sources,
                                   devices.placement, options),
                      devices.placement, executor_options(devices, request));
    std::optional<CheckedRates> rates;
    if (request.check && request.problem->mode() == plan::Mode::training) {
        rates = checked_rates(*request.problem, learning_rate(request));
    }
    return outcome_of(executor, rates);
}

/// The same model, whole on one device, in one batch.
Outcome on_one_device(const ExecuteRequest& request, const Sources& sources) {
    plan::Policy policy = request.strategy->policy;
    policy.micro_batches = 1;
    policy.schedule = {};
    const plan::Strategy whole =
        plan::whole_ops(std::vector<int>(request.problem->graph().op_count(), 0), policy);
    const plan::TaskGraph tasks = plan::lower(*request.problem, whole);
    const plan::Timeline timeline = plan::simulate(tasks, plan::Scheduler::pct);
    RealDevices one =
        real_devices(request.devices, request.problem->machine(), cost::host_limits().cores);
    std::ranges::fill(one.placement.worker, 0);
    std::ranges::fill(one.placement.device, at::Device(one.placement.device[0]));
    return outcome_of(request, whole, tasks, timeline.commit_order, {sources, one});
}

void append(std::vector<Difference>& all, std::vector<Difference> more) {
    std::ranges::move(more, std::back_inserter(all));
}

/// What the plan gives; nothing when there is nothing to compare it with.
Outcome actual_outcome(const ExecuteRequest& request, const Setup& setup) {
    if (!request.check && request.expected.empty() && !request.wants_outputs) return {};
    return outcome_of(request, *request.strategy, *request.tasks, request.order, setup);
}

std::vector<Difference> compared(const ExecuteRequest& request, const Sources& sources,
                                 const Outcome& actual) {
    std::vector<Difference> all;
    append(all, differences("expected output", actual.outputs, request.expected));
    if (!request.check) return all;
    append(all, differences_between(request.problem->graph(), request.strategy->policy.optimizer,
                                    actual, on_one_device(request, sources)));
    return all;
}

/// What the plan's devices on this host need in all must be there before anything is loaded.
void check_memory(Bytes needed) {
    const cost::HostLimits limits = cost::host_limits();
    if (needed <= limits.memory) return;
    throw DeviceError(
        "the plan's devices here need " + to_text(needed) + " of memory, this host has " +
        to_text(limits.memory) +
        ". Execute on a larger one, or plan for its memory: partita plan --set device.memory=...");
}

std::vector<TaskTime> task_times(const Executor& executor, std::span<const Iteration> iterations,
                                 std::size_t tasks) {
    std::vector<std::vector<Time>> all(tasks);
    for (const Iteration& iteration : iterations) {
        const std::vector<Time> durations = executor.durations(iteration);
        for (std::size_t t = 0; t < tasks; ++t) all[t].push_back(durations[t]);
    }
    std::vector<TaskTime> times;
    for (auto& of : all) {
        times.push_back({.median = quantile(of, 0.5),
                         .lower = quantile(of, 0.25),
                         .upper = quantile(of, 0.75)});
    }
    return times;
}

const Iteration& median_iteration(const std::vector<Iteration>& iterations) {
    std::vector<const Iteration*> sorted;
    for (const Iteration& each : iterations) sorted.push_back(&each);
    std::ranges::stable_sort(sorted, {}, [](const Iteration* each) { return each->duration; });
    return *sorted[(sorted.size() - 1) / 2];
}

void measure(const ExecuteRequest& request, const Setup& setup, ExecuteResult& result) {
    const RealDevices& devices = setup.devices;
    const ProgramOptions options{
        .optimizer = {.rate = learning_rate(request)}, .keep_outputs = false, .peers = setup.peers};
    Executor executor(*request.problem, *request.tasks,
                      make_program(*request.problem, *request.strategy, *request.tasks,
                                   request.order, setup.sources, devices.placement, options),
                      devices.placement, executor_options(devices, request));
    executor.run(request.warmup);
    if (request.tell) request.tell("loaded and warmed up");
    reset_peaks();
    const std::vector<Iteration> iterations =
        executor.run(request.iterations, request.until_stable ? is_stable : Executor::Enough{});
    for (int d = 0; d < request.problem->device_count(); ++d) {
        result.memory.push_back(peak_bytes(d));
    }
    for (const Iteration& each : iterations) result.iterations.push_back(each.duration);
    result.times = task_times(executor, iterations, request.tasks->size());
    result.runs = executor.task_runs(median_iteration(iterations));
    if (request.problem->mode() == plan::Mode::training) result.loss = iterations.back().loss;
}

ExecuteResult execute_alone(const ExecuteRequest& request) {
    const RealDevices devices =
        real_devices(request.devices, request.problem->machine(), cost::host_limits().cores);
    Bytes needed{0};
    const std::vector<Bytes> memory = plan::peak_memory(*request.tasks, request.order);
    for (std::size_t d = 0; d < memory.size(); ++d) {
        if (devices.placement.device[d].is_cpu()) needed += memory[d];
    }
    check_memory(needed);
    const Sources sources(request.problem->graph(), request.sources);
    ExecuteResult result;
    result.hardware = devices.hardware;
    const Setup setup{sources, devices};
    Outcome actual = actual_outcome(request, setup);
    result.differences = compared(request, sources, actual);
    if (request.wants_outputs) result.outputs = std::move(actual.outputs);
    measure(request, setup, result);
    return result;
}

/// One device is rank 0's matter, and takes its time: the others have left by then.
ExecuteResult execute_as_rank(ProcessRanks& ranks, const ExecuteRequest& request) {
    const Team team = make_team(ranks, request);
    check_memory(team.host_memory);
    const Sources sources(request.problem->graph(), request.sources);
    ExecuteResult result;
    result.hardware = team.devices.hardware;
    const Setup setup{sources, team.devices, &team.peers};
    Outcome actual = actual_outcome(request, setup);
    measure(request, setup, result);
    team.peers.world->set_timeout(ranks.patience());
    merge(*team.peers.world, result);
    ranks.leave();
    if (ranks.rank() == 0) result.differences = compared(request, sources, actual);
    if (request.wants_outputs) result.outputs = std::move(actual.outputs);
    return result;
}

}  // namespace

ExecuteResult execute(const ExecuteRequest& request) try {
    check_kernels(request.problem->graph());
    const Float32Products products(request.problem->graph());
    install_memory_meter();
    ExecuteResult result =
        request.ranks == nullptr
            ? execute_alone(request)
            : execute_as_rank(dynamic_cast<ProcessRanks&>(*request.ranks), request);
    release_kept_memory();
    return result;
} catch (
    const c10::Error& error) {  // outside of tasks: a GPU's memory is too small for what is loaded
    throw DeviceError(error.what_without_backtrace());
}

}  // namespace partita::runtime
