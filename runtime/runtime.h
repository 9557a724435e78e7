// SPDX-License-Identifier: Apache-2.0
//
// The runtime as the rest of Partita sees it: a library that is loaded only when something runs
// (api/runtime_library.h), because it brings LibTorch with it. Nothing in this header needs that.
//
//     plan ── tasks in the plan's order ──▶ execute() ──▶ times per task, memory, outputs
//
// Threads: one call at a time. Errors: UsageError for devices that this host does not have, and for ops
// without a kernel, both before anything is loaded; InputError for values that cannot be had; DeviceError
// for what fails while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/machine.h"
#include "graph/host_tensor.h"
#include "graph/units.h"
#include "plan/problem.h"
#include "plan/strategy.h"
#include "plan/task_graph.h"
#include "plan/task_run.h"
#include "runtime/source_options.h"

namespace partita::runtime {

struct ExecuteRequest {
    const plan::Problem* problem = nullptr;
    const plan::Strategy* strategy = nullptr;
    const plan::TaskGraph* tasks = nullptr;
    std::span<const plan::TaskId> order;  ///< all tasks
    std::string devices;  ///< "cpu:2", "cuda:0,1"; "": those of the problem's machine
    SourceOptions sources;
    int warmup = 3;
    int iterations = 10;        ///< measured ones, at most
    bool until_stable = false;  ///< fewer will do if their median hardly changes
    std::chrono::milliseconds timeout{60'000};
    /// Default: 0.01; of a loss that is a sum, divided by the elements that it sums up.
    std::optional<double> learning_rate;
    bool check = false;  ///< compare with one device
    /// What the outputs must be, by name: compared after the first iteration.
    std::vector<graph::HostTensor> expected;
};

/// Of one task over the iterations. It lasts from the moment at which it can start, with all that the
/// executor does for it; of a collective, that of the device that takes longest.
struct TaskTime {
    Time median;
    Time lower;  ///< quartile
    Time upper;  ///< quartile
};

struct Difference {
    std::string what;        ///< "output 'y'", "gradient of 'w'", ...
    double absolute = 0.0;   ///< the largest over all elements
    double relative = 0.0;   ///< that, over the largest magnitude of the tensor
    double tolerance = 0.0;  ///< of `relative`, by dtype
    [[nodiscard]] bool ok() const { return relative <= tolerance; }
};

/// Real devices that those of a plan stand for.
struct Hardware {
    std::string text;       ///< "cpu:2, 1 thread each"
    int threads = 1;        ///< per device, of CPU devices
    bool is_own = true;     ///< no two devices of the plan share a real one
    std::string transport;  ///< what moves data between them: "threads"
};

struct ExecuteResult {
    Hardware hardware;
    std::vector<Time> iterations;         ///< after the warm-up, in their order
    std::vector<TaskTime> times;          ///< per task
    std::vector<plan::TaskRun> runs;      ///< of the iteration whose time is the median
    std::vector<Bytes> memory;            ///< per plan device: peak
    std::optional<double> loss;           ///< of the last iteration, in training
    std::vector<Difference> differences;  ///< from one device, and from what was expected
};

class Runtime {
public:
    virtual ~Runtime() = default;
    [[nodiscard]] virtual ExecuteResult execute(const ExecuteRequest& request) = 0;
    /// What execute() would run on. `devices` as in ExecuteRequest; throws UsageError.
    [[nodiscard]] virtual Hardware hardware(const std::string& devices,
                                            const cost::Machine& machine) const = 0;
    /// Of the libraries that do the work, e.g. "LibTorch 2.11.0".
    [[nodiscard]] virtual std::string versions() const = 0;
};

/// What the library gives to who loads it: `extern "C" partita::runtime::Runtime* partita_make_runtime()`.
using MakeRuntime = Runtime* (*)();
inline constexpr const char* kMakeRuntime = "partita_make_runtime";

}  // namespace partita::runtime
