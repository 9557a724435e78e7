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

/// Of more than so many devices the node form is written, if the machine has one.
constexpr int kMostListedDevices = 256;

using VertexIds = std::map<std::string, int>;

int read_end(const JsonField& field, const VertexIds& ids) {
    const auto found = ids.find(field.text({"the name of a device or a switch"}, 200));
    if (found == ids.end()) field.fail({"the name of a device or a switch"});
    return found->second;
}

MachineParts read_flat(const JsonField& root) {
    // plan.json embeds a machine together with its digest.
    root.allow_only({"format", "version", "name", "summary", "digest", "collectives", "torus",
                     "devices", "switches", "links"});
    MachineCollectives collectives = read_collectives(root["collectives"]);
    collectives.torus = read_extents(root["torus"]);
    std::vector<Device> devices;
    VertexIds ids;
    for (const JsonField& field : root["devices"].items()) {
        field.allow_only({"name", "node"}, kDeviceFigures);
        Device device = read_device_figures(field);
        device.name = read_name(field["name"]);
        if (field["node"].present()) {
            device.node = static_cast<int>(
                field["node"].integer(0, kMostDevices, {"a number from 0 to 65536"}));
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
    if (format != kMachineFormat) root["format"].fail({"\"partita-machine\""});
    static_cast<void>(root["version"].integer(
        1, 1, {"version 1", "Use a release of Partita that knows this version."}));
}

std::string device_line(const Device& device) {
    return fmt::format(R"({{"name": {}, {}}})", json_quoted(device.name),
                       figures_json(device, fmt::format(R"("node": {}, )", device.node)));
}

std::string link_line(const Machine& machine, const Link& link) {
    return fmt::format(R"({{"name": {}, "from": {}, "to": {}, {}}})", json_quoted(link.name),
                       json_quoted(machine.vertex_name(link.from)),
                       json_quoted(machine.vertex_name(link.to)), figures_json(link));
}

}  // namespace

Machine parse_machine(const JsonField& field, const MachineSize& size) {
    check_format(field);
    if (size.given() && !field["nodes"].present()) {
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
    if (machine.device_count() > kMostListedDevices) {
        if (std::optional<std::string> nodes = node_form_json(machine, indent)) return *nodes;
    }
    std::vector<std::string> devices;
    for (const Device& device : machine.devices()) devices.push_back(device_line(device));
    std::vector<std::string> links;
    for (const Link& link : machine.links()) links.push_back(link_line(machine, link));
    const std::string margin(static_cast<std::size_t>(indent), ' ');
    return fmt::format(
        "{}{} \"devices\": {},\n"
        "{} \"switches\": {},\n"
        "{} \"links\": {}}}",
        machine_head_json(machine, indent), margin, json_lines(devices, margin), margin,
        json_lines(switches_json(machine, 0, static_cast<int>(machine.switches().size())), margin),
        margin, json_lines(links, margin));
}

}  // namespace partita::cost
