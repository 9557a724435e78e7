// SPDX-License-Identifier: Apache-2.0
//
// The part of machine_file.h that looks for files: presets and their sizes.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/similar.h"
#include "cost/machine/data_folder.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> preset_files() {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(data_folder() / "machines")) {
        if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
}

/// "4", "2x4" or "4x4x8", each number from 1 to kMostDevices.
MachineSize parse_size(std::string_view text, const std::string& spec) {
    const std::string_view whole = text;
    const auto refuse = [&] {
        throw UsageError(
            fmt::format("machine '{}': expected a size such as 4 or 2x4, of at most "
                        "{}, after the colon, got '{}'. Run partita machine list.",
                        spec, kMostDevices, whole));
    };
    const auto number = [&](std::string_view digits) {
        int value = 0;
        const auto [rest, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc() || rest != digits.data() + digits.size() || value < 1 ||
            value > kMostDevices)
            refuse();
        return value;
    };
    MachineSize size;
    for (;;) {
        const std::size_t cross = text.find('x');
        size.numbers.push_back(number(text.substr(0, cross)));
        if (cross == std::string_view::npos) return size;
        if (size.numbers.size() == kMostTorusAxes) refuse();
        text.remove_prefix(cross + 1);
    }
}

int number_of(std::string_view digits) {
    int value = 0;
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool whole = error == std::errc() && rest == digits.data() + digits.size();
    return whole && value >= 1 && value <= kMostDevices ? value : 0;
}

/// A preset of nodes of one type of device, as "8xH200" asks for.
struct NodesOf {
    std::string preset;
    int devices_per_node = 0;
};

std::optional<NodesOf> nodes_of(std::string_view device, const fs::path& preset, bool rented) {
    std::string type(device);
    std::ranges::transform(type, type.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const JsonFile file(read_text_file(preset), preset.string());
    const JsonField root = file.root();
    const bool in_nodes = root["sizes"].present() && root["sizes"].text({"a text"}) == "nodes";
    if (!in_nodes || root["provider"].present() != rented ||
        root["device_types"].keys() != std::vector<std::string>{type}) {
        return std::nullopt;
    }
    const JsonField group = root["nodes"].items().front()["devices"].items().front();
    return NodesOf{preset.stem().string(),
                   static_cast<int>(group["count"].integer(1, kMostDevices, {"a count"}))};
}

/// Of the first preset that has no others; those of a cloud, where nobody else has them.
std::optional<NodesOf> first_nodes_of(std::string_view device) {
    for (const bool rented : {false, true}) {
        for (const fs::path& path : preset_files()) {
            if (auto nodes = nodes_of(device, path, rented)) return nodes;
        }
    }
    return std::nullopt;
}

/// "8xH200": so many devices of that name, in the nodes of a preset; "" for
/// what has another form. Throws UsageError where there is no such preset, or nodes would not be full.
std::string as_preset(const std::string& spec) {
    const std::size_t cross = spec.find('x');
    if (cross == std::string::npos) return {};
    const int count = number_of(std::string_view(spec).substr(0, cross));
    if (count == 0) return {};
    const std::string device = spec.substr(cross + 1);
    const std::optional<NodesOf> nodes = first_nodes_of(device);
    if (nodes) {
        const int in_node = nodes->devices_per_node;
        if (count < in_node) return fmt::format("{}:1x{}", nodes->preset, count);
        if (count % in_node == 0) return fmt::format("{}:{}", nodes->preset, count / in_node);
        throw UsageError(fmt::format(
            "machine '{}': nodes of {} have {} of them. Write a multiple of that, or {}:NxM for N "
            "nodes with M each.",
            spec, nodes->preset, in_node, nodes->preset));
    }
    throw UsageError(
        fmt::format("machine '{}': no preset has nodes of '{}' alone. Run partita machine list.",
                    spec, device));
}

}  // namespace

std::vector<Preset> presets() {
    std::vector<Preset> found;
    for (const fs::path& path : preset_files()) {
        const JsonFile json(read_text_file(path), path.string());
        found.push_back({.name = path.stem().string(),
                         .summary = json.root()["summary"].text({"one line, a text"}),
                         .file = path});
    }
    return found;
}

Machine load_machine(const std::string& spec) {
    if (spec.ends_with(".json")) return parse_machine(read_text_file(spec), spec);
    if (const std::string preset = as_preset(spec); !preset.empty()) return load_machine(preset);
    const std::size_t colon = spec.find(':');
    const std::string name = spec.substr(0, colon);
    std::vector<std::string> names;
    for (const fs::path& path : preset_files()) {
        names.push_back(path.stem().string());
        if (names.back() != name) continue;
        const MachineSize size = colon == std::string::npos
                                     ? MachineSize{}
                                     : parse_size(std::string_view(spec).substr(colon + 1), spec);
        return parse_machine(read_text_file(path), path.string(), size);
    }
    throw UsageError(
        fmt::format("machine '{}': unknown preset.{} Known are {}; a machine file ends "
                    "in .json.",
                    spec, suggestion(name, names), fmt::join(names, ", ")));
}

}  // namespace partita::cost
