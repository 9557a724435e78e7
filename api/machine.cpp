// SPDX-License-Identifier: Apache-2.0
#include <partita/machine.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "api/impl.h"
#include "base/error.h"
#include "base/files.h"
#include "cost/discovery/discover.h"
#include "cost/kernels/kernel_table.h"
#include "cost/machine/machine_fields.h"
#include "cost/machine/machine_file.h"
#include "graph/dtype.h"
#include "plan/files/plan_file.h"

namespace partita {
namespace {

cost::DeviceKind to_internal(DeviceKind kind) {
    return kind == DeviceKind::gpu ? cost::DeviceKind::gpu : cost::DeviceKind::cpu;
}

DeviceKind to_public(cost::DeviceKind kind) {
    return kind == cost::DeviceKind::gpu ? DeviceKind::gpu : DeviceKind::cpu;
}

cost::LinkMode to_internal(LinkMode mode) {
    switch (mode) {
    case LinkMode::duplex: return cost::LinkMode::duplex;
    case LinkMode::directed: return cost::LinkMode::directed;
    case LinkMode::shared: return cost::LinkMode::shared;
    }
    throw UsageError("LinkMode: not one of duplex, directed, shared.");
}

LinkMode to_public(cost::LinkMode mode) {
    switch (mode) {
    case cost::LinkMode::duplex: return LinkMode::duplex;
    case cost::LinkMode::directed: return LinkMode::directed;
    case cost::LinkMode::shared: return LinkMode::shared;
    }
    return LinkMode::duplex;
}

cost::Device to_internal(const DeviceSpec& spec) {
    cost::Device device{
        .name = spec.name,
        .model = spec.model.empty() ? spec.name : spec.model,
        .kind = to_internal(spec.kind),
        .node = spec.node,
        .memory = spec.memory,
        .reserved = spec.reserved,
        .memory_bandwidth = spec.memory_bandwidth,
        .launch_interval = spec.launch_interval,
        .tf32_flops = spec.tf32_flops,
        .vector_flops = spec.vector_flops,
        .kernels = spec.kernels.empty() ? nullptr : cost::kernel_table_named(spec.kernels),
        .compute_efficiency = spec.compute_efficiency,
        .memory_efficiency = spec.memory_efficiency,
        .price_per_hour = spec.price_per_hour};
    for (const auto& [dtype, flops] : spec.matrix_flops) {
        device.matrix_flops[static_cast<std::size_t>(dtype)] = flops;
    }
    return device;
}

DeviceSpec to_public(const cost::Device& device) {
    DeviceSpec spec{.name = device.name,
                    .model = device.model,
                    .kind = to_public(device.kind),
                    .node = device.node,
                    .memory = device.memory,
                    .reserved = device.reserved,
                    .memory_bandwidth = device.memory_bandwidth,
                    .launch_interval = device.launch_interval,
                    .matrix_flops = {},
                    .tf32_flops = device.tf32_flops,
                    .vector_flops = device.vector_flops,
                    .kernels = device.kernels ? device.kernels->name() : "",
                    .compute_efficiency = device.compute_efficiency,
                    .memory_efficiency = device.memory_efficiency,
                    .price_per_hour = device.price_per_hour};
    for (std::size_t i = 0; i < device.matrix_flops.size(); ++i) {
        if (device.matrix_flops[i] > 0) {
            spec.matrix_flops[static_cast<DType>(i)] = device.matrix_flops[i];
        }
    }
    return spec;
}

/// Numbers of devices and switches by name.
std::map<std::string, int> vertices_of(const MachineSpec& spec) {
    std::map<std::string, int> vertices;
    int next = 0;
    for (const DeviceSpec& device : spec.devices) vertices.emplace(device.name, next++);
    for (const SwitchSpec& hub : spec.switches) vertices.emplace(hub.name, next++);
    return vertices;
}

std::vector<cost::Link> links_of(const MachineSpec& spec) {
    const std::map<std::string, int> vertices = vertices_of(spec);
    const auto vertex = [&](std::size_t link, const char* end, const std::string& name) {
        const auto found = vertices.find(name);
        if (found != vertices.end()) return found->second;
        throw InputError(fmt::format(
            "links[{}].{}: no device or switch is called '{}'. Correct the name, or add it.", link,
            end, name));
    };
    std::vector<cost::Link> links;
    for (std::size_t i = 0; i < spec.links.size(); ++i) {
        const LinkSpec& link = spec.links[i];
        links.push_back({.name = link.name,
                         .from = vertex(i, "from", link.from),
                         .to = vertex(i, "to", link.to),
                         .bandwidth = link.bandwidth,
                         .latency = link.latency,
                         .mode = to_internal(link.mode),
                         .efficiency = link.efficiency,
                         .source = {}});
    }
    return links;
}

cost::Machine to_internal(const MachineSpec& spec) {
    std::vector<cost::Device> devices;
    for (const DeviceSpec& device : spec.devices) devices.push_back(to_internal(device));
    std::vector<std::string> switches;
    cost::MachineCollectives collectives{
        .model = spec.collectives, .reducing_switches = {}, .source = {}, .torus = spec.torus};
    for (const SwitchSpec& hub : spec.switches) {
        if (hub.reduces) collectives.reducing_switches.push_back(static_cast<int>(switches.size()));
        switches.push_back(hub.name);
    }
    try {
        return {spec.name, std::move(devices), std::move(switches), links_of(spec),
                std::move(collectives)};
    } catch (const InputError& error) {
        throw InputError(fmt::format("{}: {}", spec.name, error.what()));
    }
}

}  // namespace

Machine::Machine(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Machine::Machine(const MachineSpec& spec)
    : impl_(std::make_shared<const Impl>(Impl{to_internal(spec)})) {}

Machine Machine::load(const std::string& spec) {
    return Machine(std::make_shared<const Impl>(Impl{cost::load_machine(spec)}));
}

Machine Machine::discover() {
    return Machine(std::make_shared<const Impl>(Impl{cost::discover_machine()}));
}

std::vector<std::string> Machine::presets() {
    std::vector<std::string> names;
    for (const cost::Preset& preset : cost::presets()) names.push_back(preset.name);
    return names;
}

const std::string& Machine::name() const {
    return impl_->machine.name();
}

int Machine::device_count() const {
    return impl_->machine.device_count();
}

MachineSpec Machine::spec() const {
    const cost::Machine& machine = impl_->machine;
    const cost::MachineCollectives& collectives = machine.collectives();
    MachineSpec spec{
        .name = machine.name(), .collectives = collectives.model, .torus = collectives.torus};
    for (const cost::Device& device : machine.devices()) spec.devices.push_back(to_public(device));
    for (const std::string& name : machine.switches()) {
        const int position = static_cast<int>(spec.switches.size());
        spec.switches.push_back(
            {name, std::ranges::binary_search(collectives.reducing_switches, position)});
    }
    for (const cost::Link& link : machine.links()) {
        spec.links.push_back({.name = link.name,
                              .from = machine.vertex_name(link.from),
                              .to = machine.vertex_name(link.to),
                              .bandwidth = link.bandwidth,
                              .latency = link.latency,
                              .mode = to_public(link.mode),
                              .efficiency = link.efficiency});
    }
    return spec;
}

std::string Machine::json() const {
    return cost::to_json(impl_->machine) + '\n';
}

void Machine::save(const std::filesystem::path& file) const {
    write_file(file, json());
}

}  // namespace partita
