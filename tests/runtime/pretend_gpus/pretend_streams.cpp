// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/pretend_gpus/pretend_streams.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <utility>

#include <c10/core/Allocator.h>

#include "tests/runtime/pretend_gpus/pretend_gpu.h"

namespace partita::runtime {

namespace {

using c10::Stream;

thread_local c10::DeviceIndex device_of_thread = 0;
thread_local std::array<std::int64_t, kPretendGpus> streams_of_thread{};
std::atomic<std::int64_t> streams_made{0};
std::atomic<bool> is_held{false};

StreamId id_of(const Stream& stream) {
    return {stream.device_index(), stream.id()};
}

struct PretendEvent {
    VectorClock clock;
    std::chrono::steady_clock::time_point time;
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
    c10::DeviceType type() const override { return kPretendType; }
    c10::Device exchangeDevice(c10::Device device) const override {
        return {kPretendType, std::exchange(device_of_thread, device.index())};
    }
    c10::Device getDevice() const override { return current_device(); }
    void setDevice(c10::Device device) const override { device_of_thread = device.index(); }
    void uncheckedSetDevice(c10::Device device) const noexcept override {
        device_of_thread = device.index();
    }
    Stream getStream(c10::Device device) const override {
        return Stream(Stream::UNSAFE, device, current_stream(device).second);
    }
    Stream getDefaultStream(c10::Device device) const override {
        return Stream(Stream::DEFAULT, device);
    }
    Stream getStreamFromGlobalPool(c10::Device device, bool /*isHighPriority*/) const override {
        return Stream(Stream::UNSAFE, device, ++streams_made);
    }
    Stream exchangeStream(Stream stream) const override {
        auto& current = streams_of_thread.at(static_cast<std::size_t>(stream.device_index()));
        return Stream(Stream::UNSAFE, stream.device(), std::exchange(current, stream.id()));
    }
    c10::DeviceIndex deviceCount() const noexcept override { return kPretendGpus; }

    void record(void** event, const Stream& stream, const c10::DeviceIndex /*device_index*/,
                const c10::EventFlag /*flag*/) const override {
        if (*event == nullptr) *event = new PretendEvent;
        *static_cast<PretendEvent*>(*event) = {clocks().now(id_of(stream)),
                                               std::chrono::steady_clock::now()};
    }
    void block(void* event, const Stream& stream) const override {
        clocks().wait(id_of(stream), static_cast<PretendEvent*>(event)->clock);
    }
    bool queryEvent(void* event) const override {
        if (is_held) return false;
        clocks().seen_by_host(static_cast<PretendEvent*>(event)->clock);
        return true;
    }
    void synchronizeEvent(void* event) const override {
        clocks().seen_by_host(static_cast<PretendEvent*>(event)->clock);
    }
    void synchronizeStream(const Stream& stream) const override {
        clocks().wait_on_host(id_of(stream));
    }
    void synchronizeDevice(const c10::DeviceIndex device_index) const override {
        clocks().seen_by_host(device_index);
    }
    void destroyEvent(void* event,
                      const c10::DeviceIndex /*device_index*/) const noexcept override {
        delete static_cast<PretendEvent*>(event);
    }
    double elapsedTime(void* from, void* to, const c10::DeviceIndex /*index*/) const override {
        const auto passed =
            static_cast<PretendEvent*>(to)->time - static_cast<PretendEvent*>(from)->time;
        return std::chrono::duration<double, std::milli>(passed).count();
    }
    void recordDataPtrOnStream(const c10::DataPtr& data, const Stream& stream) const override {
        clocks().used_by(reinterpret_cast<std::uintptr_t>(data.get()), id_of(stream));
    }
};

}  // namespace

void hold_pretend_gpus(bool hold) {
    is_held = hold;
}

StreamClocks& clocks() {
    static auto* const kClocks = new StreamClocks;  // tensors may outlive static objects
    return *kClocks;
}

c10::Device current_device() {
    return {kPretendType, device_of_thread};
}

StreamId current_stream(c10::Device device) {
    return {device.index(), streams_of_thread.at(static_cast<std::size_t>(device.index()))};
}

c10::impl::DeviceGuardImplInterface* new_pretend_guard() {
    return new Guard;
}

}  // namespace partita::runtime
