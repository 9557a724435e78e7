// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/devices.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>
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

std::string default_text(const cost::Machine& machine, int count, int first_gpu) {
    const bool gpus = std::ranges::any_of(machine.devices(), [](const cost::Device& device) {
        return device.kind == cost::DeviceKind::gpu;
    });
    if (!gpus) return "cpu:" + std::to_string(count);
    std::string text = "cuda:";
    for (int d = 0; d < count; ++d) text += (d > 0 ? "," : "") + std::to_string(first_gpu + d);
    return text;
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
    const std::string text =
        given.empty() ? default_text(machine, plan_devices, local.first_gpu) : std::string(given);
    const std::size_t colon = std::min(text.find(':'), text.size());
    const std::string_view kind = std::string_view(text).substr(0, colon);
    const std::string_view rest = std::string_view(text).substr(std::min(text.size(), colon + 1));
    std::vector<at::Device> devices;
    if (kind == "cpu") {
        devices = cpu_devices(text, rest);
    } else if (kind == "cuda") {
        devices = cuda_devices(text, rest);
    } else {
        refuse(text, "expected cpu:N or cuda:I,J,...");
    }
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
    real.placement.own_gpus = kind == "cuda" && hardware.is_own;
    hardware.transport = kind == "cpu" ? "threads" : "device copies";
    if (real.placement.own_gpus && plan_devices > 1 && has_nccl()) {
        hardware.transport = "NCCL and device copies";
    }
    hardware.text = text;
    if (kind == "cpu") {
        hardware.text += ", " + std::to_string(hardware.threads) +
                         (hardware.threads == 1 ? " thread each" : " threads each");
    }
    real.own_cores = count * hardware.threads <= cores;
    return real;
}

}  // namespace partita::runtime
