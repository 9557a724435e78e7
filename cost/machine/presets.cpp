// SPDX-License-Identifier: Apache-2.0
//
// The part of machine_file.h that looks for files: presets and their sizes.
#include <algorithm>
#include <charconv>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
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

/// "4" or "2x4", each number from 1 to kMostDevices.
MachineSize parse_size(std::string_view text, const std::string& spec) {
    const auto refuse = [&] {
        throw UsageError(
            fmt::format("machine '{}': expected a size such as 4 or 2x4, of at most "
                        "{}, after the colon, got '{}'. Run partita machine list.",
                        spec, kMostDevices, text));
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
    const std::size_t cross = text.find('x');
    MachineSize size{.count = number(text.substr(0, cross)), .devices_per_node = std::nullopt};
    if (cross != std::string_view::npos) size.devices_per_node = number(text.substr(cross + 1));
    return size;
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
        fmt::format("machine '{}': unknown preset. Known are {}; a machine file ends "
                    "in .json.",
                    spec, fmt::join(names, ", ")));
}

}  // namespace partita::cost
