// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/devices.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <ATen/Context.h>

#include "base/error.h"
#include "runtime/communicate/nccl_communicator.h"

namespace partita::runtime {

namespace {

constexpr int kMostWorkers = 1'024;
constexpr int kMostGpus = std::numeric_limits<at::DeviceIndex>::max();

std::optional<int> number_of(std::string_view text) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
    return number;
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
    throw UsageError("devices '" + std::string(text) + "': " + why);
}

std::vector<at::Device> cpu_devices(std::string_view text, std::string_view count) {
    const auto number = number_of(count);
    if (!number || *number < 1 || *number > kMostWorkers) {
        refuse(text, "expected cpu:N with N from 1 to " + std::to_string(kMostWorkers) + ".");
    }
    return std::vector<at::Device>(static_cast<std::size_t>(*number), at::Device(at::kCPU));
}

std::vector<at::Device> cuda_devices(std::string_view text, std::string_view list) {
    std::vector<at::Device> devices;
    while (!list.empty()) {
        const std::size_t comma = std::min(list.find(','), list.size());
        const auto number = number_of(list.substr(0, comma));
        if (!number || *number > kMostGpus) {
            refuse(text, "expected cuda:I,J,... with numbers of GPUs.");
        }
        const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(*number));
        if (std::ranges::find(devices, device) != devices.end()) {
            refuse(text, "GPU " + std::to_string(*number) +
                             " is named twice. Devices of the plan share GPUs by themselves.");
        }
        devices.push_back(device);
        list.remove_prefix(std::min(list.size(), comma + 1));
    }
    if (devices.empty()) refuse(text, "expected cuda:I,J,... with numbers of GPUs.");
    const int there =
        at::hasCUDA() ? static_cast<int>(at::detail::getCUDAHooks().deviceCount()) : 0;
    if (std::ranges::any_of(devices, [&](at::Device each) { return each.index() >= there; })) {
        refuse(text, "this host has " + std::to_string(there) +
                         " GPUs that LibTorch can use. Run on CPU devices, cpu:N.");
    }
    return devices;
}

std::vector<at::Device> named_devices(std::string_view text) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view kind = text.substr(0, colon);
    const std::string_view rest = text.substr(std::min(text.size(), colon + 1));
    if (kind == "cpu") return cpu_devices(text, rest);
    if (kind == "cuda") return cuda_devices(text, rest);
    refuse(text, "expected cpu:N or cuda:I,J,...");
}

struct Named {
    std::string text;
    std::vector<at::Device> devices;
};

/// For each of the plan's devices one of its kind.
Named devices_by_kind(const cost::Machine& machine, std::span<const int> driven, int first_gpu) {
    std::string gpus;
    int cpu_count = 0;
    for (const int d : driven) {
        if (machine.device(d).kind == cost::DeviceKind::cpu) {
            ++cpu_count;
        } else {
            gpus += (gpus.empty() ? "cuda:" : ",") + std::to_string(first_gpu++);
        }
    }
    const std::string cpus = cpu_count > 0 ? "cpu:" + std::to_string(cpu_count) : "";
    if (!cpus.empty()) static_cast<void>(named_devices(cpus));  // not too many
    std::vector<at::Device> of_gpus;
    if (!gpus.empty()) of_gpus = named_devices(gpus);
    Named named{.text = cpus + (cpus.empty() || gpus.empty() ? "" : " and ") + gpus, .devices = {}};
    auto next = of_gpus.begin();
    for (const int d : driven) {
        const bool is_cpu = machine.device(d).kind == cost::DeviceKind::cpu;
        named.devices.push_back(is_cpu ? at::Device(at::kCPU) : *next++);
    }
    return named;
}

}  // namespace

RealDevices real_devices(std::string_view given, const cost::Machine& machine, int cores,
                         const LocalDevices& local) {
    std::vector<int> driven = local.devices;
    if (driven.empty()) {
        driven.resize(static_cast<std::size_t>(machine.device_count()));
        std::iota(driven.begin(), driven.end(), 0);
    }
    const auto plan_devices = static_cast<int>(driven.size());
    const auto [text, devices] = given.empty() ? devices_by_kind(machine, driven, local.first_gpu)
                                               : Named{std::string(given), named_devices(given)};
    const auto cpus = static_cast<int>(
        std::ranges::count_if(devices, [](at::Device each) { return each.is_cpu(); }));
    RealDevices real;
    const int workers = std::min(static_cast<int>(devices.size()), plan_devices);
    real.placement.worker.assign(static_cast<std::size_t>(machine.device_count()), -1);
    real.placement.device.assign(real.placement.worker.size(), at::Device(at::kCPU));
    for (int i = 0; i < plan_devices; ++i) {
        const auto d = static_cast<std::size_t>(driven[static_cast<std::size_t>(i)]);
        const int worker = static_cast<int>(std::int64_t{i} * workers / plan_devices);
        real.placement.worker[d] = worker;
        real.placement.device[d] = devices[static_cast<std::size_t>(worker)];
    }
    const auto count = static_cast<int>(devices.size());
    Hardware& hardware = real.hardware;
    hardware.threads = given.empty() ? machine.device(0).threads : std::max(1, cores / count);
    hardware.is_own = workers == plan_devices;
    real.placement.own_gpus = cpus == 0 && hardware.is_own;
    hardware.transport = cpus == count ? "threads" : "device copies";
    if (real.placement.own_gpus && plan_devices > 1 && has_nccl()) {
        hardware.transport = "NCCL and device copies";
    }
    hardware.text = text;
    if (cpus == count) {
        hardware.text += ", " + std::to_string(hardware.threads) +
                         (hardware.threads == 1 ? " thread each" : " threads each");
    }
    real.own_cores = count * hardware.threads <= cores;
    return real;
}

}  // namespace partita::runtime
