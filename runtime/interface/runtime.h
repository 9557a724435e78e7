// SPDX-License-Identifier: Apache-2.0
//
// The runtime as the rest of Partita sees it: a library that is loaded only when something runs
// (api/runtime_library.h), because it brings LibTorch with it. Nothing in this header needs that.
//
//     plan ── tasks in the plan's order ──▶ execute() ──▶ times per task, memory, outputs
//
// Several processes may share a plan's devices (runtime/execute/ranks.h).
//
// Threads: one call at a time. Errors: UsageError for devices that this host does not have, and for
// models that can be planned but not executed, both before anything is loaded; InputError for values
// that cannot be had; DeviceError for what fails while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cost/machine/machine.h"
#include "graph/host_tensor.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "plan/tasks/task_run.h"
#include "runtime/communicate/launch.h"
#include "runtime/interface/source_options.h"

namespace partita::runtime {

/// This process as one of several that execute a plan together, each as one rank.
class Ranks {
public:
    virtual ~Ranks() = default;
    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    /// Tells the others why, and ends this process with that exit code: nothing is destroyed.
    [[noreturn]] virtual void fail(int exit_code, const std::string& reason) = 0;
    /// Together with the others, when all is done; from then on this process is alone.
    virtual void leave() = 0;
};

struct ExecuteRequest {
    const plan::Problem* problem = nullptr;
    const plan::Strategy* strategy = nullptr;
    const plan::TaskGraph* tasks = nullptr;
    std::span<const plan::TaskId> order;  ///< all tasks
    /// "cpu:2", "cuda:0,1"; "": those of the problem's machine. Of several processes: this one's.
    std::string devices;
    SourceOptions sources;
    int warmup = 3;
    int iterations = 10;        ///< measured ones, at most
    bool until_stable = false;  ///< fewer will do if their median hardly changes
    std::chrono::milliseconds timeout{60'000};
    /// An iteration that takes longer fails, between two tasks; none: no limit. Of one process
    /// alone.
    std::optional<std::chrono::milliseconds> limit;
    /// Default: 0.01; of a loss that is a sum, divided by the elements that it sums up.
    std::optional<double> learning_rate;
    bool check = false;  ///< compare with one device
    /// What the outputs must be, by name: compared after the first iteration.
    std::vector<graph::HostTensor> expected;
    bool wants_outputs = false;  ///< ExecuteResult::outputs
    Ranks* ranks = nullptr;      ///< of Runtime::join(); null: this process is alone
    /// What all ranks must have been given, by name: "plan", its digest. Compared before anything
    /// runs.
    std::vector<std::pair<std::string, std::string>> same;
    std::function<void(std::string_view)> tell;  ///< how far it is; or none
};

/// Of one task over the iterations. It lasts from the moment at which it can start, with all that
/// the executor does for it; of a collective, that of the device that takes longest.
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
    /// Of an iteration with the weights that the model has; where that is asked for.
    std::vector<graph::HostTensor> outputs;
};

class Runtime {
public:
    virtual ~Runtime() = default;
    /// Of several processes all call it, and rank 0 gets the result; then they have left one
    /// another.
    [[nodiscard]] virtual ExecuteResult execute(const ExecuteRequest& request) = 0;
    /// Meets the other processes; null when there are none. The time-out is that of every wait for
    /// them, and ten seconds more while they start and load. Throws DeviceError when they do not
    /// come.
    [[nodiscard]] virtual std::unique_ptr<Ranks> join(const Launch& launch,
                                                      std::chrono::milliseconds timeout) = 0;
    /// Throws UsageError for a model that execute() would refuse.
    virtual void check(const graph::OpGraph& graph) const = 0;
    /// What execute() would run on. `devices` as in ExecuteRequest; throws UsageError.
    [[nodiscard]] virtual Hardware hardware(const std::string& devices,
                                            const cost::Machine& machine) const = 0;
    /// Of the libraries that do the work, e.g. "LibTorch 2.11.0".
    [[nodiscard]] virtual std::string versions() const = 0;
};

/// What the library gives to who loads it: `extern "C" partita::runtime::Runtime*
/// partita_make_runtime()`.
using MakeRuntime = Runtime* (*)();
inline constexpr const char* kMakeRuntime = "partita_make_runtime";

}  // namespace partita::runtime
