// SPDX-License-Identifier: Apache-2.0
#include "cost/machine_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "graph/dtype.h"
#include "graph/error.h"

namespace partita::cost {

namespace {

using graph::JsonField;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMostRate = 1'000'000'000'000'000'000;
constexpr double kAnything = std::numeric_limits<double>::max();
constexpr std::int64_t kMostPicoseconds = 1'000'000'000'000;

struct Prefix {
    std::string_view text;
    double size;
};
constexpr std::array<Prefix, 10> kPrefixes{{{"Ki", 0x1p10},
                                            {"Mi", 0x1p20},
                                            {"Gi", 0x1p30},
                                            {"Ti", 0x1p40},
                                            {"k", 1e3},
                                            {"K", 1e3},
                                            {"M", 1e6},
                                            {"G", 1e9},
                                            {"T", 1e12},
                                            {"P", 1e15}}};

/// "300 GB/s" -> 300000000000, "100 Gb/s" -> 12500000000, "7 us" -> 7000000: in the base unit of
/// the field, bytes, bytes/s, FLOP/s or picoseconds. Null when it is nothing of the kind.
std::optional<std::int64_t> without_unit(const std::string& text) {
    char* rest = nullptr;
    double value = std::strtod(text.c_str(), &rest);
    if (rest == text.c_str()) return std::nullopt;
    std::string_view unit(rest);
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    constexpr std::array<Prefix, 5> kTimes{
        {{"s", 1e12}, {"ms", 1e9}, {"us", 1e6}, {"ns", 1e3}, {"ps", 1}}};
    bool time = false;
    for (const Prefix& known : kTimes) {
        if (unit != known.text) continue;
        value *= known.size;
        time = true;
    }
    for (const Prefix& known : kPrefixes) {
        if (time || !unit.starts_with(known.text)) continue;
        value *= known.size;
        unit.remove_prefix(known.text.size());
        break;
    }
    if (!time) {
        if (unit == "b/s" || unit == "bit/s") {
            value /= 8;
        } else if (unit != "B" && unit != "B/s" && unit != "FLOP/s" && unit != "FLOPS" &&
                   !unit.empty()) {
            return std::nullopt;
        }
    }
    if (!(std::abs(value) < 1e18)) return std::nullopt;
    return std::llround(value);
}

/// A whole number in [least, most]; `example` is what a correct file might hold.
std::int64_t read_figure(const JsonField& field, std::int64_t least, std::int64_t most,
                         std::string_view what, std::int64_t example) {
    std::optional<std::int64_t> meant;
    if (field.is_text()) meant = without_unit(field.text({what}));
    const bool too_large = field.is_number() &&
                           field.number(-kAnything, kAnything, {what}) > static_cast<double>(most);
    const std::string range = too_large ? fmt::format("{} and at most {}", what, most) : "";
    if (meant && (*meant < least || *meant > most)) meant.reset();
    const std::string remedy =
        meant ? fmt::format("Write {}.", *meant) : fmt::format("Write a number, e.g. {}.", example);
    return field.integer(least, most, {too_large ? range : what, remedy});
}

double read_share(const JsonField& field) {
    if (!field.present()) return 1.0;
    return field.number(std::numeric_limits<double>::min(), 1.0,
                        {"a share > 0 and <= 1", "Write e.g. 0.7."});
}

/// A text, or an object with one text for each figure, joined to "figure: text; figure: text".
std::string read_source(const JsonField& field) {
    if (!field.present()) return {};
    if (!field.is_object()) return field.text({"a text, or a text for each figure {...}"});
    std::string joined;
    for (const std::string& figure : field.keys()) {
        joined += fmt::format("{}{}: {}", joined.empty() ? "" : "; ", figure,
                              field[figure].text({"a text"}));
    }
    return joined;
}

void read_matrix_flops(const JsonField& field, Device& device) {
    for (const std::string& name : field.keys()) {
        const auto dtype = graph::dtype_from_name(name);
        if (!dtype) field[name].reject("unknown element type. Write e.g. float32 or bfloat16.");
        device.matrix_flops[static_cast<std::size_t>(*dtype)] =
            read_figure(field[name], 1, kMostRate, "a number of FLOP/s > 0", 19'500'000'000'000);
    }
    if (!field["float32"].present()) {
        field["float32"].fail({"a number of FLOP/s > 0", "Add it: other types fall back to it."});
    }
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
    switch (kind) {
    case DeviceKind::gpu: return "gpu";
    case DeviceKind::cpu: return "cpu";
    }
    std::abort();
}

std::string_view name_of(LinkMode mode) {
    switch (mode) {
    case LinkMode::duplex: return "duplex";
    case LinkMode::directed: return "directed";
    case LinkMode::shared: return "shared";
    }
    std::abort();
}

std::string read_name(const JsonField& field) {
    return field.text({"a name"}, 200);
}

SwitchFigures read_switch(const JsonField& field) {
    if (!field.is_object()) return {.name = read_name(field)};
    field.allow_only({"name", "reduces"});
    return {.name = read_name(field["name"]),
            .reduces = field["reduces"].present() && field["reduces"].boolean()};
}

MachineCollectives read_collectives(const JsonField& field) {
    MachineCollectives collectives;
    if (!field.present()) return collectives;
    field.allow_only({"model", "source"});
    collectives.model = field["model"].text({"the name of a collective model"}, 200);
    // It names a file of the data folder, so it must not lead out of there.
    const bool plain =
        !collectives.model.empty() && std::ranges::all_of(collectives.model, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
        });
    if (!plain) {
        field["model"].fail({"lower-case letters, digits and -", "Write e.g. nccl-a100."});
    }
    collectives.source = read_source(field["source"]);
    return collectives;
}

Device read_device_figures(const JsonField& field) {
    Device device;
    device.model = field["model"].text({"the model of the device, a text"}, 200);
    const std::string kind = field["kind"].text({"\"gpu\" or \"cpu\""});
    if (kind != "gpu" && kind != "cpu") field["kind"].fail({"\"gpu\" or \"cpu\""});
    device.kind = kind == "gpu" ? DeviceKind::gpu : DeviceKind::cpu;
    device.memory = Bytes(
        read_figure(field["memory_bytes"], 1, kMostBytes, "a number of bytes > 0", 17'179'869'184));
    device.memory_bandwidth = read_figure(field["memory_bandwidth"], 1, kMostRate,
                                          "a number of bytes/s > 0", 900'000'000'000);
    device.launch_interval = Time(read_figure(field["launch_interval_ps"], 0, kMostPicoseconds,
                                              "a number of picoseconds >= 0", 7'000'000));
    read_matrix_flops(field["matrix_flops"], device);
    device.vector_flops = read_figure(field["vector_flops"], 1, kMostRate, "a number of FLOP/s > 0",
                                      19'500'000'000'000);
    device.compute_efficiency = read_share(field["compute_efficiency"]);
    device.memory_efficiency = read_share(field["memory_efficiency"]);
    device.source = read_source(field["source"]);
    if (const JsonField threads = field["threads"]; threads.present()) {
        constexpr std::int64_t kMostThreads = 2'048;  // a run starts them; no host has more
        device.threads = static_cast<int>(
            threads.integer(1, kMostThreads, {"a number of cores from 1 to 2048"}));
    }
    return device;
}

Link read_link_figures(const JsonField& field) {
    Link link;
    link.bandwidth =
        read_figure(field["bandwidth"], 1, kMostRate, "a number of bytes/s > 0", 300'000'000'000);
    link.latency = Time(read_figure(field["latency_ps"], 0, kMostPicoseconds,
                                    "a number of picoseconds >= 0", 600'000));
    if (const JsonField mode = field["mode"]; mode.present()) {
        constexpr std::string_view kModes = "\"duplex\", \"directed\" or \"shared\"";
        const std::string name = mode.text({kModes});
        bool known = false;
        for (const LinkMode each : {LinkMode::duplex, LinkMode::directed, LinkMode::shared}) {
            if (name != name_of(each)) continue;
            link.mode = each;
            known = true;
        }
        if (!known) mode.fail({kModes});
    }
    link.efficiency = read_share(field["efficiency"]);
    link.source = read_source(field["source"]);
    return link;
}

}  // namespace partita::cost
