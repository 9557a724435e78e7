// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/workload_machine.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/dtype.h"

namespace partita::cost {

namespace {

constexpr std::int64_t kSpeed = 1'000'000'000'000;  ///< FLOP/s and bytes/s; only ratios matter
constexpr std::int64_t kFree = 1'000'000'000'000'000'000;  ///< bytes/s: a GiB takes a nanosecond
constexpr const char* kSource = "none: the workload file gives all times";

Device device_of(DeviceKind kind, int number, Bytes memory, std::int64_t speed) {
    Device device;
    device.name = fmt::format("{}{}", kind == DeviceKind::cpu ? "cpu" : "accelerator", number);
    device.model = kind == DeviceKind::cpu ? "CPU" : "accelerator";
    device.kind = kind;
    device.memory = std::max(Bytes{1}, memory);
    device.memory_bandwidth = speed;
    device.matrix_flops[static_cast<std::size_t>(graph::DType::float32)] = speed;
    device.vector_flops = speed;
    device.source = kSource;
    return device;
}

}  // namespace

Machine make_workload_machine(const graph::OpGraph& graph, int accelerators, int cpus,
                              Bytes memory) {
    assert(accelerators >= 0 && cpus >= 0 && accelerators + cpus >= 1);
    Bytes whole;
    Int128 accelerator_time = 0;
    Int128 cpu_time = 0;
    for (const graph::Op& op : graph.ops()) {
        if (!op.given) continue;
        whole += op.given->memory;
        accelerator_time += op.given->accelerator_time.raw();
        cpu_time += op.given->cpu_time.raw();
    }
    const double ratio = accelerator_time > 0 && cpu_time > 0
                             ? static_cast<double>(accelerator_time) / static_cast<double>(cpu_time)
                             : 1.0;
    const auto cpu_speed = static_cast<std::int64_t>(
        std::clamp(static_cast<double>(kSpeed) * ratio, 1.0, static_cast<double>(kFree)));
    std::vector<Device> devices;
    for (int i = 0; i < accelerators; ++i) {
        devices.push_back(device_of(DeviceKind::gpu, i, memory, kSpeed));
    }
    for (int i = 0; i < cpus; ++i) {
        devices.push_back(device_of(DeviceKind::cpu, i, std::max(memory, whole), cpu_speed));
    }
    std::vector<Link> links(devices.size());
    for (int i = 0; std::cmp_less(i, links.size()); ++i) {
        links[static_cast<std::size_t>(i)].from = i;
        links[static_cast<std::size_t>(i)].to = static_cast<int>(devices.size());
        links[static_cast<std::size_t>(i)].bandwidth = kFree;
        links[static_cast<std::size_t>(i)].source = kSource;
    }
    return {"workload", std::move(devices), {"host"}, std::move(links)};
}

}  // namespace partita::cost
