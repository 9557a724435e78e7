// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver, opened at run time: a build needs no toolkit, and a host without a driver has no
// GPUs. Twin: no_cuda_devices.cpp.
#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include <dlfcn.h>

#include "cost/discovery/cuda_figures.h"
#include "cost/discovery/discover.h"

namespace partita::cost {

namespace {

// The part of the driver's interface (cuda.h) that is used here; stable since CUDA 3.2.
using Result = int;
using Handle = int;
constexpr Result kSuccess = 0;
enum class Attribute : int {
    clock_khz = 13,
    multiprocessors = 16,
    memory_clock_khz = 36,
    memory_bus_bits = 37,
    capability_major = 75,
    capability_minor = 76,
};

struct Driver {
    Result (*init)(unsigned flags) = nullptr;
    Result (*count)(int* count) = nullptr;
    Result (*get)(Handle* device, int ordinal) = nullptr;
    Result (*name)(char* name, int length, Handle device) = nullptr;
    Result (*memory)(std::size_t* bytes, Handle device) = nullptr;
    Result (*attribute)(int* value, int attribute, Handle device) = nullptr;
};

/// False when the library lacks the symbol.
template <class Function>
bool load(void* library, const char* symbol, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, symbol));
    return function != nullptr;
}

bool load_driver(void* library, Driver& driver) {
    return load(library, "cuInit", driver.init) &&
           load(library, "cuDeviceGetCount", driver.count) &&
           load(library, "cuDeviceGet", driver.get) &&
           load(library, "cuDeviceGetName", driver.name) &&
           load(library, "cuDeviceTotalMem_v2", driver.memory) &&
           load(library, "cuDeviceGetAttribute", driver.attribute);
}

/// 0 for what the driver does not say.
int attribute_of(const Driver& driver, Handle handle, Attribute attribute) {
    int value = 0;
    const Result result = driver.attribute(&value, static_cast<int>(attribute), handle);
    return result == kSuccess ? value : 0;
}

CudaProperties properties_of(const Driver& driver, Handle handle) {
    const auto ask = [&](Attribute attribute) { return attribute_of(driver, handle, attribute); };
    std::array<char, 256> name{};
    std::size_t bytes = 0;
    // A failure leaves the name empty and the memory 0; cuda_device() puts up with both.
    static_cast<void>(driver.name(name.data(), static_cast<int>(name.size()) - 1, handle));
    static_cast<void>(driver.memory(&bytes, handle));
    return {.name = name.data(),
            .memory = Bytes(static_cast<std::int64_t>(bytes)),
            .capability = 10 * ask(Attribute::capability_major) + ask(Attribute::capability_minor),
            .multiprocessors = ask(Attribute::multiprocessors),
            .clock_hz = std::int64_t{1000} * ask(Attribute::clock_khz),
            .memory_clock_hz = std::int64_t{1000} * ask(Attribute::memory_clock_khz),
            .memory_bus_bits = ask(Attribute::memory_bus_bits)};
}

}  // namespace

std::vector<Device> cuda_devices() {
    // Never closed: the driver does not survive being unloaded and loaded again.
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    Driver driver;
    if (library == nullptr || !load_driver(library, driver)) return {};
    int count = 0;
    if (driver.init(0) != kSuccess || driver.count(&count) != kSuccess) return {};
    std::vector<Device> devices;
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        Handle handle = 0;
        if (driver.get(&handle, ordinal) != kSuccess) continue;
        devices.push_back(cuda_device(properties_of(driver, handle)));
    }
    return devices;
}

}  // namespace partita::cost
