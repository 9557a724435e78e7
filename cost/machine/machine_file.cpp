// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/machine_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "cost/kernels/kernel_table.h"
#include "cost/machine/machine_fields.h"
#include "cost/machine/node_form.h"

namespace partita::cost {

namespace {

constexpr std::string_view kFormat = "partita-machine";

using VertexIds = std::map<std::string, int>;

int read_end(const JsonField& field, const VertexIds& ids) {
    const auto found = ids.find(field.text({"the name of a device or a switch"}, 200));
    if (found == ids.end()) field.fail({"the name of a device or a switch"});
    return found->second;
}

MachineParts read_flat(const JsonField& root) {
    // plan.json embeds a machine together with its digest.
    root.allow_only({"format", "version", "name", "summary", "digest", "collectives", "devices",
                     "switches", "links"});
    MachineCollectives collectives = read_collectives(root["collectives"]);
    std::vector<Device> devices;
    VertexIds ids;
    for (const JsonField& field : root["devices"].items()) {
        field.allow_only({"name", "node"}, kDeviceFigures);
        Device device = read_device_figures(field);
        device.name = read_name(field["name"]);
        if (field["node"].present()) {
            device.node = static_cast<int>(
                field["node"].integer(0, kMostDevices, {"a number from 0 to 4096"}));
        }
        ids.emplace(device.name, static_cast<int>(devices.size()));
        devices.push_back(std::move(device));
    }
    std::vector<std::string> switches;
    if (root["switches"].present()) {
        for (const JsonField& field : root["switches"].items()) {
            SwitchFigures figures = read_switch(field);
            if (figures.reduces) {
                collectives.reducing_switches.push_back(static_cast<int>(switches.size()));
            }
            switches.push_back(std::move(figures.name));
            ids.emplace(switches.back(), static_cast<int>(devices.size() + switches.size()) - 1);
        }
    }
    std::vector<Link> links;
    if (root["links"].present()) {
        for (const JsonField& field : root["links"].items()) {
            field.allow_only({"name", "from", "to"}, kLinkFigures);
            Link link = read_link_figures(field);
            if (field["name"].present()) link.name = read_name(field["name"]);
            link.from = read_end(field["from"], ids);
            link.to = read_end(field["to"], ids);
            links.push_back(std::move(link));
        }
    }
    return {read_name(root["name"]), std::move(devices), std::move(switches), std::move(links),
            std::move(collectives)};
}

void check_format(const JsonField& root) {
    const std::string format = root["format"].text({"\"partita-machine\""});
    if (format != kFormat) root["format"].fail({"\"partita-machine\""});
    static_cast<void>(root["version"].integer(
        1, 1, {"version 1", "Use a release of Partita that knows this version."}));
}

std::string device_line(const Device& device) {
    std::string flops;
    for (std::size_t i = 0; i < device.matrix_flops.size(); ++i) {
        if (device.matrix_flops[i] == 0) continue;
        flops += fmt::format("{}\"{}\": {}", flops.empty() ? "" : ", ",
                             graph::name_of(static_cast<graph::DType>(i)), device.matrix_flops[i]);
    }
    if (device.tf32_flops > 0) flops += fmt::format(", \"{}\": {}", kTf32, device.tf32_flops);
    return fmt::format(
        R"({{"name": {}, "model": {}, "kind": "{}", "node": {}, "memory_bytes": {}, )"
        R"("memory_bandwidth": {}, "launch_interval_ps": {}, "matrix_flops": {{{}}}, )"
        R"("vector_flops": {}, {}"compute_efficiency": {}, "memory_efficiency": {}, "source": {}{}{}{}}})",
        json_quoted(device.name), json_quoted(device.model), name_of(device.kind), device.node,
        device.memory.raw(), device.memory_bandwidth, device.launch_interval.raw(), flops,
        device.vector_flops,
        device.kernels ? fmt::format(R"("kernels": "{}", )", device.kernels->name()) : "",
        json_number(device.compute_efficiency), json_number(device.memory_efficiency),
        json_quoted(device.source),
        device.threads == 1 ? "" : fmt::format(R"(, "threads": {})", device.threads),
        device.reserved == default_reserved(device.kind, device.memory)
            ? ""
            : fmt::format(R"(, "reserved_bytes": {})", device.reserved.raw()),
        device.price_per_hour == 0
            ? ""
            : fmt::format(R"(, "price_per_hour": {})", json_number(device.price_per_hour)));
}

std::string link_line(const Machine& machine, const Link& link) {
    return fmt::format(R"({{"name": {}, "from": {}, "to": {}, "bandwidth": {}, "latency_ps": {}, )"
                       R"("mode": "{}", "efficiency": {}, "source": {}}})",
                       json_quoted(link.name), json_quoted(machine.vertex_name(link.from)),
                       json_quoted(machine.vertex_name(link.to)), link.bandwidth,
                       link.latency.raw(), name_of(link.mode), json_number(link.efficiency),
                       json_quoted(link.source));
}

/// [], or one item per line.
std::string array_of(const std::vector<std::string>& lines, const std::string& margin) {
    if (lines.empty()) return "[]";
    std::string text = "[";
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += fmt::format("{}\n{}  {}", i == 0 ? "" : ",", margin, lines[i]);
    }
    return text + "]";
}

}  // namespace

Machine parse_machine(const JsonField& field, const MachineSize& size) {
    check_format(field);
    if (size.count && !field["nodes"].present()) {
        throw UsageError(
            fmt::format("machine '{0}' has one size only. Write {0}.", read_name(field["name"])));
    }
    MachineParts parts = field["nodes"].present() ? expand_nodes(field, size) : read_flat(field);
    try {
        return {std::move(parts.name), std::move(parts.devices), std::move(parts.switches),
                std::move(parts.links), std::move(parts.collectives)};
    } catch (const InputError& error) {
        field.reject(error.what());
    }
}

Machine parse_machine(std::string_view json, const std::string& context, const MachineSize& size) {
    const JsonFile file(json, context);
    return parse_machine(file.root(), size);
}

std::string to_json(const Machine& machine, int indent) {
    const std::string margin(static_cast<std::size_t>(indent), ' ');
    std::vector<std::string> devices;
    for (const Device& device : machine.devices()) devices.push_back(device_line(device));
    std::vector<std::string> switches;
    const MachineCollectives& collectives = machine.collectives();
    for (const std::string& name : machine.switches()) {
        const bool reduces = std::ranges::binary_search(collectives.reducing_switches,
                                                        static_cast<int>(switches.size()));
        switches.push_back(fmt::format("{{\"name\": {}{}}}", json_quoted(name),
                                       reduces ? ", \"reduces\": true" : ""));
    }
    const std::string model =
        collectives.model.empty()
            ? std::string()
            : fmt::format("{} \"collectives\": {{\"model\": {}, \"source\": {}}},\n", margin,
                          json_quoted(collectives.model), json_quoted(collectives.source));
    std::vector<std::string> links;
    for (const Link& link : machine.links()) links.push_back(link_line(machine, link));
    return fmt::format(
        "{{\"format\": \"{}\", \"version\": 1, \"name\": {},\n"
        "{}"
        "{} \"devices\": {},\n"
        "{} \"switches\": {},\n"
        "{} \"links\": {}}}",
        kFormat, json_quoted(machine.name()), model, margin, array_of(devices, margin), margin,
        array_of(switches, margin), margin, array_of(links, margin));
}

}  // namespace partita::cost
