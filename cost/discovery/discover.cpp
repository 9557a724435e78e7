// SPDX-License-Identifier: Apache-2.0
#include "cost/discovery/discover.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "cost/discovery/cuda_figures.h"
#include "cost/discovery/host.h"
#include "graph/dtype.h"

namespace partita::cost {

namespace {

/// Not measured; the source texts say so.
constexpr Time kThreadLatency = microseconds(1);

Device core_of(const HostLimits& limits, const HostSpeed& speed) {
    Device core;
    core.model = limits.model;
    core.kind = DeviceKind::cpu;
    core.memory = std::max(Bytes{1}, Bytes(limits.memory.raw() / limits.cores));
    core.memory_bandwidth = std::max<std::int64_t>(1, speed.memory_bandwidth / limits.cores);
    core.launch_interval = kThreadLatency;
    const std::int64_t flops = std::max<std::int64_t>(1, speed.flops / limits.cores);
    core.matrix_flops[static_cast<std::size_t>(graph::DType::float32)] = flops;
    core.matrix_flops[static_cast<std::size_t>(graph::DType::float64)] =
        std::max<std::int64_t>(1, flops / 2);
    core.vector_flops = flops;
    core.source = fmt::format(
        "memory: 1/{0} of what the operating system grants; memory bandwidth and FLOP/s: 1/{0} of "
        "what all cores reached in a loop; launch interval: assumed",
        limits.cores);
    return core;
}

struct Gpus {
    std::vector<Device> devices;
    Link host_link;
};

/// GPUs that the driver reports and the data file can price.
Gpus find_gpus() {
    try {
        return {cuda_devices(), cuda_host_link()};
    } catch (const InputError&) {
        return {};  // no data file: a host without GPUs is still a machine to plan for
    }
}

}  // namespace

Machine discover_machine() {
    const HostLimits limits = host_limits();
    const Device core = core_of(limits, measure_host(limits.cores, limits.memory));
    std::vector<Device> devices;
    std::vector<Link> links;
    for (int i = 0; i < limits.cores; ++i) {
        devices.push_back(core);
        devices.back().name = fmt::format("cpu{}", i);
    }
    Gpus gpus = find_gpus();
    for (Device& gpu : gpus.devices) {
        if (devices.size() == static_cast<std::size_t>(kMostDevices)) break;
        gpu.name = fmt::format("gpu{}", devices.size() - static_cast<std::size_t>(limits.cores));
        devices.push_back(std::move(gpu));
    }
    Link core_link;
    core_link.bandwidth = core.memory_bandwidth;
    core_link.latency = kThreadLatency;
    core_link.source = "bandwidth: as the core's memory; latency: assumed";
    for (int i = 0; std::cmp_less(i, devices.size()); ++i) {
        links.push_back(i < limits.cores ? core_link : gpus.host_link);
        links.back().from = i;
        links.back().to = static_cast<int>(devices.size());
    }
    return {"host", std::move(devices), {"memory"}, std::move(links)};
}

}  // namespace partita::cost
