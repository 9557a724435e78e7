// SPDX-License-Identifier: Apache-2.0
//
// What a worker's steps run on, and the clock that they are timed by. One object per worker.
//
//     host       a step has run when its function returns                       driver.cpp
//     streams    a function only hands work to a GPU, which runs it later:      stream_driver.h
//                a step has run when an event behind it has come
//
// In both, who sees a task done on the board may begin what follows: on a GPU it is handed over,
// and what follows waits for its event there; what follows on a CPU waits for it on the host.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/units.h"
#include "runtime/execute/lanes.h"
#include "runtime/execute/program.h"

namespace partita::runtime {

class Driver {
public:
    using Clock = std::chrono::steady_clock;

    virtual ~Driver() = default;
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    // By the worker's thread, but for lane() and ends().

    /// Before anything else.
    virtual void attach() {}
    /// An iteration begins; nothing of the one before still runs.
    virtual void begin(Clock::time_point now) = 0;
    /// Returns once what GPUs still run for this step has run, where it must not begin before; false
    /// when the time is over, or nobody waits for it any more. Throws what failed there.
    virtual bool wait_for_gpus(std::size_t /*step*/, Clock::time_point /*until*/,
                               const std::function<bool()>& /*stopped*/) {
        return true;
    }
    /// What the thread does from here on belongs to this step (of the worker's),
    virtual void enter(std::size_t step) = 0;
    /// up to here. `store` still holds what the step has read.
    virtual void leave(std::size_t step, const Store& store) = 0;
    /// Returns when all steps that were left have run, or the first one that has not when the time
    /// is over, or nobody waits for it any more. Throws what failed on the device meanwhile.
    virtual std::optional<std::size_t> end(Clock::time_point until,
                                           const std::function<bool()>& stopped) = 0;

    /// Steps of one lane run one after the other, in their order.
    [[nodiscard]] virtual Lane lane(std::size_t /*step*/) const { return Lane::compute; }
    /// Per step, since the start of the iteration that has ended.
    [[nodiscard]] std::span<const Time> ends() const { return ends_; }

protected:
    explicit Driver(std::size_t steps) : ends_(steps) {}
    std::vector<Time> ends_;
};

/// What a worker on a CPU does for the sake of GPUs beside it.
struct GpusBeside {
    std::function<void()> attach;
    std::function<bool(std::size_t step, Driver::Clock::time_point until,
                       const std::function<bool()>& stopped)>
        wait;
};
std::unique_ptr<Driver> host_driver(std::size_t steps, GpusBeside gpus = {});

/// One per worker. Program and placement must outlive them.
std::vector<std::unique_ptr<Driver>> drivers_for(const Program& program,
                                                 const plan::TaskGraph& tasks,
                                                 const Placement& placement);

}  // namespace partita::runtime
