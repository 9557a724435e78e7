// SPDX-License-Identifier: Apache-2.0
#include "cost/machine/machine_fields.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <fmt/format.h>

#include "base/error.h"
#include "base/figure.h"
#include "cost/kernels/kernel_table.h"
#include "cost/machine/data_folder.h"
#include "graph/dtype.h"

namespace partita::cost {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
constexpr std::int64_t kMostRate = 1'000'000'000'000'000'000;
constexpr double kAnything = std::numeric_limits<double>::max();
constexpr std::int64_t kMostPicoseconds = 1'000'000'000'000;

std::string_view example_of(FigureKind kind) {
    switch (kind) {
    case FigureKind::bytes: return "17179869184 or \"16GiB\"";
    case FigureKind::bytes_per_second: return "900000000000 or \"900GB/s\"";
    case FigureKind::flops: return "19500000000000 or \"19.5TFLOP/s\"";
    case FigureKind::time: return "7000000 or \"7us\"";
    case FigureKind::price: return "2.5";
    }
    std::abort();
}

/// A whole number of the base unit, or a text with its unit, in [least, most].
std::int64_t read_figure(const JsonField& field, std::int64_t least, std::int64_t most,
                         std::string_view what, FigureKind kind) {
    const std::string range = fmt::format("{} and at most {}", what, most);
    const std::string remedy = fmt::format("Write e.g. {}.", example_of(kind));
    if (field.is_text()) {
        const auto figure = parse_figure(field.text({what}), kind);
        if (figure && *figure >= least && *figure <= most) return *figure;
        field.fail({figure && *figure > most ? range : what, remedy});
    }
    const bool too_large = field.is_number() &&
                           field.number(-kAnything, kAnything, {what}) > static_cast<double>(most);
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

}  // namespace

std::int64_t& matrix_flops_named(const JsonField& field, std::string_view name, Device& device) {
    if (name == kTf32) return device.tf32_flops;
    const auto dtype = graph::dtype_from_name(name);
    if (!dtype) field.reject("unknown element type. Write e.g. float32, bfloat16 or tf32.");
    return device.matrix_flops[static_cast<std::size_t>(*dtype)];
}

namespace {

void read_matrix_flops(const JsonField& field, Device& device) {
    for (const std::string& name : field.keys()) {
        matrix_flops_named(field[name], name, device) =
            read_figure(field[name], 1, kMostRate, "a number of FLOP/s > 0", FigureKind::flops);
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

namespace {

/// Of a file of the data folder, so it must not lead out of there.
bool is_data_name(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    });
}

std::string read_data_name(const JsonField& field, std::string_view what, std::string_view remedy) {
    std::string name = field.text({what}, 200);
    if (!is_data_name(name)) field.fail({"lower-case letters, digits and -", remedy});
    return name;
}

std::shared_ptr<const KernelTable> read_kernels(const JsonField& field) {
    if (!field.present()) return nullptr;
    const std::string name =
        read_data_name(field, "the name of a kernel table", "Write e.g. hopper.");
    try {
        return kernel_table_named(name);
    } catch (const InputError& error) {
        field.reject(error.what());
    }
}

}  // namespace

std::shared_ptr<const KernelTable> kernel_table_named(const std::string& name) {
    if (!is_data_name(name)) {
        throw InputError(fmt::format(
            "kernels '{}': expected lower-case letters, digits and -. Write e.g. hopper.", name));
    }
    // Machines of thousands of devices name one table; it is read once.
    static std::mutex mutex;
    static std::map<std::string, std::shared_ptr<const KernelTable>> tables;
    const std::lock_guard lock(mutex);
    auto& table = tables[name];
    if (!table) table = read_kernel_table(data_folder() / "kernels" / (name + ".json"));
    return table;
}

MachineCollectives read_collectives(const JsonField& field) {
    MachineCollectives collectives;
    if (!field.present()) return collectives;
    field.allow_only({"model", "source"});
    collectives.model =
        read_data_name(field["model"], "the name of a collective model", "Write e.g. nccl-a100.");
    collectives.source = read_source(field["source"]);
    return collectives;
}

std::vector<int> read_extents(const JsonField& field) {
    std::vector<int> extents;
    if (!field.present()) return extents;
    const std::string_view expected = "1 to 4 extents such as [4, 8]";
    for (const JsonField& item : field.items()) {
        if (extents.size() == kMostTorusAxes) field.fail({expected});
        extents.push_back(
            static_cast<int>(item.integer(1, kMostDevices, {"an extent from 1 to 65536"})));
    }
    if (extents.empty()) field.fail({expected});
    return extents;
}

Device read_device_figures(const JsonField& field) {
    Device device;
    device.model = field["model"].text({"the model of the device, a text"}, 200);
    const std::string kind = field["kind"].text({"\"gpu\" or \"cpu\""});
    if (kind != "gpu" && kind != "cpu") field["kind"].fail({"\"gpu\" or \"cpu\""});
    device.kind = kind == "gpu" ? DeviceKind::gpu : DeviceKind::cpu;
    device.memory = Bytes(read_figure(field["memory_bytes"], 1, kMostBytes, "a number of bytes > 0",
                                      FigureKind::bytes));
    device.reserved = default_reserved(device.kind, device.memory);
    if (const JsonField reserved = field["reserved_bytes"]; reserved.present()) {
        device.reserved = Bytes(read_figure(reserved, 0, device.memory.raw() - 1,
                                            "a number of bytes >= 0", FigureKind::bytes));
    }
    device.memory_bandwidth = read_figure(field["memory_bandwidth"], 1, kMostRate,
                                          "a number of bytes/s > 0", FigureKind::bytes_per_second);
    device.launch_interval = Time(read_figure(field["launch_interval_ps"], 0, kMostPicoseconds,
                                              "a number of picoseconds >= 0", FigureKind::time));
    read_matrix_flops(field["matrix_flops"], device);
    device.vector_flops = read_figure(field["vector_flops"], 1, kMostRate, "a number of FLOP/s > 0",
                                      FigureKind::flops);
    device.kernels = read_kernels(field["kernels"]);
    device.compute_efficiency = read_share(field["compute_efficiency"]);
    device.memory_efficiency = read_share(field["memory_efficiency"]);
    device.source = read_source(field["source"]);
    if (const JsonField threads = field["threads"]; threads.present()) {
        constexpr std::int64_t kMostThreads = 2'048;  // a run starts them; no host has more
        device.threads = static_cast<int>(
            threads.integer(1, kMostThreads, {"a number of cores from 1 to 2048"}));
    }
    if (const JsonField price = field["price_per_hour"]; price.present()) {
        constexpr double kMostPrice = 1e6;
        device.price_per_hour =
            price.number(0, kMostPrice, {"a price from 0 to 1000000", "Write e.g. 2.5."});
    }
    return device;
}

Link read_link_figures(const JsonField& field) {
    Link link;
    link.bandwidth = read_figure(field["bandwidth"], 1, kMostRate, "a number of bytes/s > 0",
                                 FigureKind::bytes_per_second);
    link.latency = Time(read_figure(field["latency_ps"], 0, kMostPicoseconds,
                                    "a number of picoseconds >= 0", FigureKind::time));
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

std::string figures_json(const Device& device, std::string_view behind_kind) {
    std::string flops;
    for (std::size_t i = 0; i < device.matrix_flops.size(); ++i) {
        if (device.matrix_flops[i] == 0) continue;
        flops += fmt::format("{}\"{}\": {}", flops.empty() ? "" : ", ",
                             graph::name_of(static_cast<graph::DType>(i)), device.matrix_flops[i]);
    }
    if (device.tf32_flops > 0) flops += fmt::format(", \"{}\": {}", kTf32, device.tf32_flops);
    return fmt::format(
        R"("model": {}, "kind": "{}", {}"memory_bytes": {}, )"
        R"("memory_bandwidth": {}, "launch_interval_ps": {}, "matrix_flops": {{{}}}, )"
        R"("vector_flops": {}, {}"compute_efficiency": {}, "memory_efficiency": {}, "source": {}{}{}{})",
        json_quoted(device.model), name_of(device.kind), behind_kind, device.memory.raw(),
        device.memory_bandwidth, device.launch_interval.raw(), flops, device.vector_flops,
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

std::string figures_json(const Link& link) {
    return fmt::format(
        R"("bandwidth": {}, "latency_ps": {}, "mode": "{}", "efficiency": {}, "source": {})",
        link.bandwidth, link.latency.raw(), name_of(link.mode), json_number(link.efficiency),
        json_quoted(link.source));
}

std::string machine_head_json(const Machine& machine, int indent) {
    const MachineCollectives& collectives = machine.collectives();
    const std::string model =
        collectives.model.empty()
            ? std::string()
            : fmt::format("{:{}} \"collectives\": {{\"model\": {}, \"source\": {}}},\n", "", indent,
                          json_quoted(collectives.model), json_quoted(collectives.source));
    const std::string torus = collectives.torus.empty()
                                  ? std::string()
                                  : fmt::format("{:{}} \"torus\": [{}],\n", "", indent,
                                                fmt::join(collectives.torus, ", "));
    return fmt::format("{{\"format\": \"{}\", \"version\": 1, \"name\": {},\n{}{}", kMachineFormat,
                       json_quoted(machine.name()), model, torus);
}

std::vector<std::string> switches_json(const Machine& machine, int first, int count,
                                       std::size_t prefix) {
    const std::vector<int>& reducing = machine.collectives().reducing_switches;
    std::vector<std::string> lines;
    for (int i = first; i < first + count; ++i) {
        const std::string& name = machine.switches()[static_cast<std::size_t>(i)];
        lines.push_back(fmt::format(
            "{{\"name\": {}{}}}", json_quoted(name.substr(std::min(prefix, name.size()))),
            std::ranges::binary_search(reducing, i) ? ", \"reduces\": true" : ""));
    }
    return lines;
}

std::string json_lines(const std::vector<std::string>& lines, const std::string& margin) {
    if (lines.empty()) return "[]";
    std::string text = "[";
    for (std::size_t i = 0; i < lines.size(); ++i) {
        text += fmt::format("{}\n{}  {}", i == 0 ? "" : ",", margin, lines[i]);
    }
    return text + "]";
}

}  // namespace partita::cost
