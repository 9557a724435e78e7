// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/driver.h"

#include <algorithm>
#include <utility>

#include "runtime/execute/stream_driver.h"

namespace partita::runtime {

namespace {

class HostDriver final : public Driver {
public:
    HostDriver(std::size_t steps, GpusBeside gpus) : Driver(steps), gpus_(std::move(gpus)) {}
    void attach() override {
        if (gpus_.attach) gpus_.attach();
    }
    bool wait_for_gpus(std::size_t step, Clock::time_point until,
                       const std::function<bool()>& stopped) override {
        return !gpus_.wait || gpus_.wait(step, until, stopped);
    }
    void begin(Clock::time_point now) override { start_ = now; }
    void enter(std::size_t /*step*/) override {}
    void leave(std::size_t step, const Store& /*store*/) override {
        const auto passed =
            std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_);
        ends_[step] = nanoseconds(passed.count());
    }
    std::optional<std::size_t> end(Clock::time_point /*until*/,
                                   const std::function<bool()>& /*stopped*/) override {
        return std::nullopt;
    }

private:
    GpusBeside gpus_;
    Clock::time_point start_;
};

}  // namespace

std::unique_ptr<Driver> host_driver(std::size_t steps, GpusBeside gpus) {
    return std::make_unique<HostDriver>(steps, std::move(gpus));
}

std::vector<std::unique_ptr<Driver>> drivers_for(const Program& program,
                                                 const plan::TaskGraph& tasks,
                                                 const Placement& placement) {
    const bool on_host =
        std::ranges::all_of(placement.device, [](at::Device each) { return each.is_cpu(); });
    if (!on_host) return stream_drivers(program, tasks, placement);
    std::vector<std::unique_ptr<Driver>> drivers;
    for (const auto& steps : program.steps) drivers.push_back(host_driver(steps.size()));
    return drivers;
}

}  // namespace partita::runtime
