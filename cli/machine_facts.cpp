// SPDX-License-Identifier: Apache-2.0
#include "cli/machine_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/folded_table.h"
#include "cli/table.h"

namespace partita::cli {
namespace {

std::string rate_text(std::int64_t per_second, std::string_view unit) {
    const std::string text = to_text(Flops(per_second));
    return text + (text.find(' ') == std::string::npos ? " " : "") + std::string(unit);
}

/// "float32 67 TFLOP/s, float16 and bfloat16 990 TFLOP/s": every type that the machine names.
std::string matrix_text(const cost::Device& device) {
    std::vector<std::pair<std::int64_t, std::string>> rates;  // in the order of types
    for (std::size_t i = 0; i < device.matrix_flops.size(); ++i) {
        const std::int64_t rate = device.matrix_flops[i];
        if (rate == 0) continue;
        const std::string name(graph::name_of(static_cast<graph::DType>(i)));
        const auto same =
            std::ranges::find(rates, rate, [](const auto& each) { return each.first; });
        if (same == rates.end()) {
            rates.emplace_back(rate, name);
        } else {
            same->second += " " + name;
        }
    }
    std::string text;
    for (const auto& [rate, names] : rates) {
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", names, rate_text(rate, "FLOP/s"));
    }
    return text;
}

std::string device_rows(const cost::Machine& machine) {
    FoldedTable table({{.title = "devices"},
                       {.title = "model"},
                       {.title = "memory", .align = Align::right},
                       {.title = "reserved", .align = Align::right},
                       {.title = "bandwidth", .align = Align::right},
                       {.title = "vector", .align = Align::right},
                       {.title = "matrices by element type"}});
    for (const cost::Device& device : machine.devices()) {
        table.add(device.name, {device.model, to_text(device.memory), to_text(device.reserved),
                                rate_text(device.memory_bandwidth, "B/s"),
                                rate_text(device.vector_flops, "FLOP/s"), matrix_text(device)});
    }
    return table.to_text();
}

std::string_view mode_name(cost::LinkMode mode) {
    switch (mode) {
    case cost::LinkMode::duplex: return "duplex";
    case cost::LinkMode::directed: return "directed";
    case cost::LinkMode::shared: return "shared";
    }
    return {};
}

std::string link_rows(const cost::Machine& machine) {
    FoldedTable table({{.title = "links"},
                       {.title = "bandwidth", .align = Align::right},
                       {.title = "latency", .align = Align::right},
                       {.title = "mode"}});
    for (const cost::Link& link : machine.links()) {
        table.add(link.name, {rate_text(link.bandwidth, "B/s"), to_text(link.latency),
                              std::string(mode_name(link.mode))});
    }
    return table.to_text();
}

std::string source_rows(const cost::Machine& machine) {
    constexpr std::string_view kBetween = "; ";  // between the figures that a source speaks of
    std::vector<std::string> sources;            // in order of appearance
    const auto add = [&](std::string_view source) {
        while (!source.empty()) {
            const auto end = std::min(source.find(kBetween), source.size());
            const std::string one(source.substr(0, end));
            if (std::ranges::find(sources, one) == sources.end()) sources.push_back(one);
            source.remove_prefix(std::min(end + kBetween.size(), source.size()));
        }
    };
    for (const cost::Device& device : machine.devices()) add(device.source);
    for (const cost::Link& link : machine.links()) add(link.source);
    std::string text = sources.empty() ? "" : "sources\n";
    for (const std::string& source : sources) text += "  " + source + '\n';
    return text;
}

}  // namespace

std::string machine_text(const cost::Machine& machine) {
    std::set<int> nodes;
    for (const cost::Device& device : machine.devices()) nodes.insert(device.node);
    return fmt::format("{}: {}, {}, {}\n\n{}\n{}\n{}", machine.name(),
                       count_of(machine.device_count(), "device"),
                       count_of(static_cast<std::int64_t>(nodes.size()), "node"),
                       count_of(static_cast<std::int64_t>(machine.links().size()), "link"),
                       device_rows(machine), link_rows(machine), source_rows(machine));
}

}  // namespace partita::cli
