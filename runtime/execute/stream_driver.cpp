// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/stream_driver.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "runtime/execute/lanes.h"
#include "runtime/execute/memory_meter.h"

namespace partita::runtime {

namespace {

using c10::EventFlag;
using c10::Stream;

constexpr auto kAwake = std::chrono::milliseconds(20);  // of waiting for a device; then naps
constexpr auto kNap = std::chrono::microseconds(50);

/// What the workers of a program share: written by the owner of the step before it says so on the
/// board.
struct Events {
    std::vector<std::vector<c10::Event>> after;  ///< per worker and step; of a CPU's worker none
    std::vector<std::vector<LanedStep>> steps;   ///< the same, of all
};

/// False when the time is over, or nobody waits any more.
bool has_come(const c10::Event& event, Driver::Clock::time_point awake,
              Driver::Clock::time_point until, const std::function<bool()>& stopped) {
    while (!event.query()) {
        const auto now = Driver::Clock::now();
        if (now >= until || stopped()) return false;
        if (now >= awake) std::this_thread::sleep_for(kNap);
    }
    return true;
}

class StreamDriver final : public Driver {
public:
    StreamDriver(std::size_t worker, at::Device device, std::vector<at::Device> all,
                 std::shared_ptr<Events> events, const Program& program,
                 const plan::TaskGraph& tasks)
        : Driver(program.steps[worker].size()),
          worker_(worker),
          device_(device),
          all_(std::move(all)),
          impl_(device.type()),
          events_(std::move(events)),
          program_(program),
          tasks_(tasks),
          start_(device.type(), EventFlag::BACKEND_DEFAULT) {}

    void attach() override {
        impl_.setDevice(device_);
        for (const at::Device each : all_) {
            impl_.synchronizeDevice(each.index());  // what was loaded is there
            if (each != device_) impl_.exchangeStream(impl_.getStreamFromGlobalPool(each));
        }
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            lanes_.push_back(impl_.getStreamFromGlobalPool(device_));
        }
        impl_.exchangeStream(lanes_[0]);
    }

    void begin(Clock::time_point /*now*/) override {
        start_.record(lanes_[0]);
        for (std::size_t lane = 1; lane < kLanes; ++lane) start_.block(lanes_[lane]);
        left_ = 0;
    }

    void enter(std::size_t step) override {
        const LanedStep& laned = events_->steps[worker_][step];
        const Stream& stream = lanes_[static_cast<std::size_t>(laned.lane)];
        impl_.exchangeStream(stream);
        meter_gpu(device_.index(), program_.steps[worker_][step].device);
        for (const StepPlace each : laned.awaits) {
            const auto& after = events_->after[each.worker];
            if (!after.empty()) after[each.step].block(stream);
        }
    }

    void leave(std::size_t step, const Store& store) override {
        const Step& its = program_.steps[worker_][step];
        for (const plan::BufferId b : tasks_.reads[its.task.index()]) {
            if (program_.lasting[b.index()] == 0) mark(store[b]);
        }
        if (program_.exchange != nullptr) {
            // Those of this step: other steps of the task may be fetching theirs. Tokens have no
            // slot.
            const std::size_t tokens = program_.exchange->messages().messages_in;
            for (const std::int32_t message : its.messages) {
                if (std::cmp_greater_equal(message, tokens)) continue;
                mark(store[program_.exchange->slot_of(message)]);
            }
        }
        events_->after[worker_][step].record(lanes_[static_cast<std::size_t>(lane(step))]);
        left_ = step + 1;
    }

    std::optional<std::size_t> end(Clock::time_point until,
                                   const std::function<bool()>& stopped) override {
        const auto awake = Clock::now() + kAwake;
        for (std::size_t step = 0; step < left_; ++step) {
            const c10::Event& event = events_->after[worker_][step];
            if (!has_come(event, awake, until, stopped)) return step;
            constexpr double kNanoseconds = 1e6;  // of a millisecond
            ends_[step] = nanoseconds(std::llround(kNanoseconds * start_.elapsedTime(event)));
        }
        return std::nullopt;
    }

    [[nodiscard]] Lane lane(std::size_t step) const override {
        return events_->steps[worker_][step].lane;
    }

private:
    /// The stream of this thread that reads it.
    void mark(const at::Tensor& tensor) const {
        if (!tensor.defined() || tensor.is_cpu() || tensor.nbytes() == 0) return;
        impl_.recordDataPtrOnStream(tensor.storage().data_ptr(), impl_.getStream(tensor.device()));
    }

    std::size_t worker_;
    at::Device device_;
    std::vector<at::Device> all_;  ///< GPUs of the program
    c10::impl::VirtualGuardImpl impl_;
    std::shared_ptr<Events> events_;
    const Program& program_;
    const plan::TaskGraph& tasks_;
    c10::Event start_;
    std::vector<Stream> lanes_;
    std::size_t left_ = 0;  ///< steps in this iteration
};

/// Of a worker on a CPU, which reads GPUs' memory by copies that end before its step does. They
/// start on a stream of its own, which waits for what the host has seen: nothing on a GPU that is
/// real.
GpusBeside gpus_beside(std::size_t worker, const std::vector<at::Device>& own,
                       const std::vector<at::Device>& gpus, const std::shared_ptr<Events>& events) {
    GpusBeside beside;
    beside.attach = [gpus] {
        for (const at::Device each : gpus) {
            const c10::impl::VirtualGuardImpl impl(each.type());
            impl.synchronizeDevice(each.index());  // what was loaded is there
            impl.exchangeStream(impl.getStreamFromGlobalPool(each));
        }
    };
    beside.wait = [events, worker, own](std::size_t step, Driver::Clock::time_point until,
                                        const std::function<bool()>& stopped) {
        const auto awake = Driver::Clock::now() + kAwake;
        return std::ranges::all_of(events->steps[worker][step].awaits, [&](StepPlace each) {
            if (events->after[each.worker].empty()) return true;
            c10::Event& event = events->after[each.worker][each.step];
            if (!has_come(event, awake, until, stopped)) return false;
            const at::Device device = own[each.worker];
            event.block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
            return true;
        });
    };
    return beside;
}

}  // namespace

std::vector<std::unique_ptr<Driver>> stream_drivers(const Program& program,
                                                    const plan::TaskGraph& tasks,
                                                    const Placement& placement) {
    std::vector<at::Device> own(program.steps.size(), at::Device(at::kCPU));
    for (std::size_t d = 0; d < placement.device.size(); ++d) {
        if (placement.worker[d] < 0) continue;
        own[static_cast<std::size_t>(placement.worker[d])] = placement.device[d];
    }
    std::vector<at::Device> all;
    for (const at::Device each : own) {
        if (!each.is_cpu() && std::ranges::find(all, each) == all.end()) all.push_back(each);
    }
    auto events = std::make_shared<Events>();
    events->steps = plan_lanes(program, tasks);
    for (std::size_t w = 0; w < own.size(); ++w) {
        auto& after = events->after.emplace_back();
        if (own[w].is_cpu()) continue;
        for (std::size_t s = 0; s < program.steps[w].size(); ++s) {
            after.emplace_back(own[w].type(), EventFlag::BACKEND_DEFAULT);
        }
    }
    std::vector<std::unique_ptr<Driver>> drivers;
    for (std::size_t w = 0; w < own.size(); ++w) {
        if (own[w].is_cpu()) {
            drivers.push_back(
                host_driver(program.steps[w].size(), gpus_beside(w, own, all, events)));
            continue;
        }
        drivers.push_back(std::make_unique<StreamDriver>(w, own[w], all, events, program, tasks));
    }
    return drivers;
}

}  // namespace partita::runtime
