// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/what_if.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/figure.h"
#include "base/json.h"
#include "cost/machine/machine_fields.h"

namespace partita::cost {

namespace {

constexpr std::int64_t kMostFigure = 1'000'000'000'000'000'000;

/// New value of a figure, from its old one.
using Change = std::function<std::int64_t(std::int64_t)>;

enum class Links : std::uint8_t { all, network, node };

struct Parts {
    std::vector<Device> devices;
    std::vector<Link> links;
    std::vector<char> leaves_node;  ///< per link
};

int change_links(Parts& parts, Links which, bool bandwidth, const Change& change) {
    int changed = 0;
    for (std::size_t i = 0; i < parts.links.size(); ++i) {
        if (which != Links::all && (which == Links::network) != (parts.leaves_node[i] != 0)) {
            continue;
        }
        Link& link = parts.links[i];
        if (bandwidth) {
            link.bandwidth = std::max<std::int64_t>(1, change(link.bandwidth));
        } else {
            link.latency = Time(change(link.latency.raw()));
        }
        ++changed;
    }
    return changed;
}

/// What is reserved stays, unless it is the usual share.
void change_memory(Device& device, const Change& change) {
    const bool usual = device.reserved == default_reserved(device.kind, device.memory);
    device.memory = Bytes(std::max<std::int64_t>(1, change(device.memory.raw())));
    device.reserved = usual ? default_reserved(device.kind, device.memory)
                            : std::min(device.reserved, device.memory - Bytes{1});
}

void change_reserved(Device& device, const Change& change) {
    device.reserved = std::min(Bytes(change(device.reserved.raw())), device.memory - Bytes{1});
}

void change_memory_bandwidth(Device& device, const Change& change) {
    device.memory_bandwidth = std::max<std::int64_t>(1, change(device.memory_bandwidth));
}

void change_launch_interval(Device& device, const Change& change) {
    device.launch_interval = Time(change(device.launch_interval.raw()));
}

void change_matrix_flops(Device& device, const Change& change) {
    for (std::int64_t& flops : device.matrix_flops) {
        if (flops > 0) flops = std::max<std::int64_t>(1, change(flops));
    }
    std::int64_t& tf32 = device.tf32_flops;
    if (tf32 > 0) tf32 = std::max<std::int64_t>(1, change(tf32));
}

void change_vector_flops(Device& device, const Change& change) {
    device.vector_flops = std::max<std::int64_t>(1, change(device.vector_flops));
}

void change_price(Device& device, const Change& change) {
    constexpr double kMillionths = 1e6;
    device.price_per_hour =
        static_cast<double>(change(std::llround(device.price_per_hour * kMillionths))) /
        kMillionths;
}

/// One changes what the path names, and says in how many places.
struct PathRow {
    std::string_view path;
    FigureKind kind;
    bool may_set;
    int (*apply)(Parts& parts, const Change& change);
};

template <Links which, bool bandwidth>
int apply_links(Parts& parts, const Change& change) {
    return change_links(parts, which, bandwidth, change);
}

template <void (*... fields)(Device&, const Change&)>
int apply_devices(Parts& parts, const Change& change) {
    for (Device& device : parts.devices) (fields(device, change), ...);
    return static_cast<int>(parts.devices.size());
}

constexpr std::array kPaths = {
    PathRow{"network.bandwidth", FigureKind::bytes_per_second, true,
            apply_links<Links::network, true>},
    PathRow{"network.latency", FigureKind::time, true, apply_links<Links::network, false>},
    PathRow{"node.bandwidth", FigureKind::bytes_per_second, true, apply_links<Links::node, true>},
    PathRow{"node.latency", FigureKind::time, true, apply_links<Links::node, false>},
    PathRow{"links.bandwidth", FigureKind::bytes_per_second, true, apply_links<Links::all, true>},
    PathRow{"links.latency", FigureKind::time, true, apply_links<Links::all, false>},
    PathRow{"device.memory", FigureKind::bytes, true, apply_devices<change_memory>},
    PathRow{"device.reserved", FigureKind::bytes, true, apply_devices<change_reserved>},
    PathRow{"device.memory_bandwidth", FigureKind::bytes_per_second, true,
            apply_devices<change_memory_bandwidth>},
    PathRow{"device.launch_interval", FigureKind::time, true,
            apply_devices<change_launch_interval>},
    PathRow{"device.matrix_flops", FigureKind::flops, true, apply_devices<change_matrix_flops>},
    PathRow{"device.vector_flops", FigureKind::flops, true, apply_devices<change_vector_flops>},
    PathRow{"device.price_per_hour", FigureKind::price, true, apply_devices<change_price>},
    PathRow{"compute", FigureKind::flops, false,
            apply_devices<change_matrix_flops, change_vector_flops>}};

bool may_be_zero(const PathRow& row) {
    return row.kind == FigureKind::time || row.kind == FigureKind::price ||
           row.path == "device.reserved";
}

std::string known_paths(bool set) {
    std::string text;
    for (const PathRow& row : kPaths) {
        if (set && !row.may_set) continue;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", row.path);
    }
    return text;
}

const PathRow& find_path(std::string_view path, bool set, const std::string& option) {
    for (const PathRow& row : kPaths) {
        if (set && !row.may_set) continue;
        if (row.path == path) return row;
        // "network" is the first of its fields.
        if (!set && row.path.starts_with(path) && row.path.substr(path.size()).starts_with('.') &&
            path != "device") {
            return row;
        }
    }
    throw UsageError(fmt::format("{}: unknown figure {}. Known are {}.", option, json_quoted(path),
                                 known_paths(set)));
}

/// "path" and "value" of "path=value".
std::pair<std::string_view, std::string_view> split(std::string_view text, std::string_view name,
                                                    std::string_view example) {
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) {
        throw UsageError(fmt::format("{} {}: expected PATH=VALUE. Write e.g. {} {}.", name, text,
                                     name, example));
    }
    return {text.substr(0, equals), text.substr(equals + 1)};
}

std::string_view option_example(FigureKind kind) {
    switch (kind) {
    case FigureKind::bytes: return "40GiB";
    case FigureKind::bytes_per_second: return "12.5GB/s";
    case FigureKind::flops: return "100TFLOP/s";
    case FigureKind::time: return "5us";
    case FigureKind::price: return "2.5";
    }
    return {};
}

/// Per link: does it join devices of different nodes, or a switch that nobody's node holds?
std::vector<char> find_network(const Machine& machine) {
    constexpr int kNobody = -1;
    std::vector<std::set<int>> nodes(static_cast<std::size_t>(machine.device_count()) +
                                     machine.switches().size());
    const auto is_device = [&](int vertex) { return vertex < machine.device_count(); };
    for (int d = 0; d < machine.device_count(); ++d) {
        nodes[static_cast<std::size_t>(d)].insert(machine.device(d).node);
    }
    for (const Link& link : machine.links()) {
        for (const auto& [end, other] : {std::pair{link.from, link.to}, {link.to, link.from}}) {
            if (is_device(end) || !is_device(other)) continue;
            nodes[static_cast<std::size_t>(end)].insert(machine.device(other).node);
        }
    }
    const auto node_of = [&](int vertex) {
        const std::set<int>& of = nodes[static_cast<std::size_t>(vertex)];
        return of.size() == 1 ? *of.begin() : kNobody;
    };
    std::vector<char> leaves;
    for (const Link& link : machine.links()) {
        const int from = node_of(link.from);
        leaves.push_back(from == kNobody || from != node_of(link.to) ? 1 : 0);
    }
    return leaves;
}

void apply(Parts& parts, const PathRow& row, const Machine& machine, const std::string& option,
           const Change& change) {
    if (row.apply(parts, change) > 0) return;
    throw UsageError(fmt::format("{}: machine '{}' has no such link. Known are {}.", option,
                                 machine.name(), known_paths(/*set=*/false)));
}

}  // namespace

Machine changed(const Machine& machine, const WhatIf& changes) {
    Parts parts{{machine.devices().begin(), machine.devices().end()},
                {machine.links().begin(), machine.links().end()},
                find_network(machine)};
    for (const std::string& text : changes.set) {
        const std::string option = "--set " + text;
        const auto [path, value] = split(text, "--set", "network.bandwidth=12.5GB/s");
        const PathRow& row = find_path(path, /*set=*/true, option);
        const auto figure = parse_figure(value, row.kind);
        if (!figure || (*figure == 0 && !may_be_zero(row))) {
            throw UsageError(fmt::format("{}: expected a figure such as {}, got {}.", option,
                                         option_example(row.kind), json_quoted(value)));
        }
        apply(parts, row, machine, option, [to = *figure](std::int64_t) { return to; });
    }
    for (const std::string& text : changes.scale) {
        const std::string option = "--scale " + text;
        const auto [path, value] = split(text, "--scale", "network=0.25");
        const PathRow& row = find_path(path, /*set=*/false, option);
        const std::string digits(value);
        char* rest = nullptr;
        const double factor = std::strtod(digits.c_str(), &rest);
        if (digits.empty() || *rest != '\0' || !(factor >= 1e-6 && factor <= 1e6)) {
            throw UsageError(fmt::format("{}: expected a factor from 1e-6 to 1e6, got {}.", option,
                                         json_quoted(value)));
        }
        apply(parts, row, machine, option, [factor](std::int64_t old) {
            if (factor == 1.0) return old;  // all digits of the integer
            const double figure = std::round(static_cast<double>(old) * factor);
            return static_cast<std::int64_t>(std::min(figure, static_cast<double>(kMostFigure)));
        });
    }
    try {
        return {machine.name(),
                std::move(parts.devices),
                {machine.switches().begin(), machine.switches().end()},
                std::move(parts.links),
                machine.collectives()};
    } catch (const InputError& error) {
        throw UsageError(fmt::format("--set, --scale: {}", error.what()));
    }
}

}  // namespace partita::cost
