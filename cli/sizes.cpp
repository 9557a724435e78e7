// SPDX-License-Identifier: Apache-2.0
#include "cli/sizes.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "api/option_fields.h"
#include "base/error.h"
#include "base/figure.h"
#include "cost/machine/machine_file.h"

namespace partita::cli {
namespace {

bool is_size(std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789x") == std::string_view::npos;
}

/// "dgx-h100:1,2" are dgx-h100:1 and dgx-h100:2.
std::vector<std::string> machines_named(std::string_view text) {
    if (std::filesystem::exists(text)) return {std::string(text)};  // its name may have commas
    std::vector<std::string> machines;
    std::string_view preset;  // with its colon
    while (true) {
        const std::size_t comma = std::min(text.find(','), text.size());
        const std::string_view item = text.substr(0, comma);
        if (item.empty()) {
            throw UsageError(
                "--machine: expected a machine behind each comma. Write e.g. "
                "dgx-h100:1,2,4 or dgx-h100:1,cpu:2.");
        }
        if (is_size(item) && !preset.empty()) {
            machines.push_back(fmt::format("{}{}", preset, item));
        } else {
            const std::size_t colon = item.find(':');
            preset =
                colon == std::string_view::npos ? std::string_view{} : item.substr(0, colon + 1);
            machines.emplace_back(item);
        }
        if (comma == text.size()) return machines;
        text.remove_prefix(comma + 1);
    }
}

std::int64_t devices_of(const std::string& machine) {
    return cost::load_machine(machine).device_count();
}

bool has_sizes(const std::string& preset) {
    try {
        static_cast<void>(cost::load_machine(preset + ":1"));
        return true;
    } catch (const UsageError&) {
        return false;
    }
}

/// 1, 2, 4, ... of a preset; of one that has one size only, that.
std::vector<std::string> sizes_up_to(const std::string& preset, std::int64_t most) {
    std::vector<std::string> machines;
    if (!has_sizes(preset)) {
        if (devices_of(preset) <= most) machines.push_back(preset);
        return machines;
    }
    for (std::int64_t count = 1; count <= most; count *= 2) {
        std::string machine = fmt::format("{}:{}", preset, count);
        if (devices_of(machine) > most) break;
        machines.push_back(std::move(machine));
    }
    return machines;
}

std::vector<std::string> machines_of(const std::string& machine, const SizeOptions& options) {
    if (machine.empty() && options.most_devices) {
        throw UsageError(
            "--devices-at-most: of which machine? Add --machine, e.g. --machine dgx-h100.");
    }
    std::vector<std::string> named =
        machine.empty() ? std::vector<std::string>{""} : machines_named(machine);
    if (!options.most_devices) return named;
    std::vector<std::string> machines;
    for (const std::string& each : named) {
        const bool is_preset = !each.ends_with(".json") && each.find(':') == std::string::npos;
        if (is_preset) {
            std::ranges::move(sizes_up_to(each, *options.most_devices),
                              std::back_inserter(machines));
        } else if (devices_of(each) <= *options.most_devices) {
            machines.push_back(each);
        }
    }
    if (machines.empty()) {
        throw UsageError(fmt::format("--devices-at-most {}: --machine {} has more in every size.",
                                     *options.most_devices, machine));
    }
    return machines;
}

}  // namespace

void add_size_options(CLI::App& app, SizeOptions& options) {
    constexpr const char* kGroup = "What to plan for";
    app.add_option_function<std::string>(
           "--devices-at-most",
           [&options](const std::string& text) {
               options.most_devices = api::read_number("--devices-at-most", text, 1, api::kNoMost);
           },
           "a table of sizes: 1, 2, 4, ... of the preset that --machine names, up to so many "
           "devices")
        ->type_name("N")
        ->group(kGroup);
    app.add_option_function<std::string>(
           "--step-time-at-most",
           [&options](const std::string& text) {
               const auto time = parse_figure(text, FigureKind::time);
               if (!time || *time == 0) {
                   throw UsageError(fmt::format(
                       "--step-time-at-most {}: expected a time > 0 such as 1s or 250ms.", text));
               }
               options.most_time = Time(*time);
           },
           "a table of sizes: the plan that is written is that of the fewest devices which reach "
           "it")
        ->type_name("TIME")
        ->group(kGroup);
}

bool asks_for_table(const std::string& machine, const SizeOptions& options) {
    return options.batches.size() > 1 || options.most_devices || options.most_time ||
           (machine.find(',') != std::string::npos && !std::filesystem::exists(machine));
}

std::vector<Size> sizes_of(const std::string& machine, const SizeOptions& options) {
    std::vector<Size> sizes;
    for (const std::string& each : machines_of(machine, options)) {
        if (!each.empty()) static_cast<void>(devices_of(each));  // before anything is searched
        if (options.batches.empty()) sizes.push_back({each, std::nullopt});
        for (const std::int64_t batch : options.batches) sizes.push_back({each, batch});
    }
    return sizes;
}

std::string size_text(const Size& size) {
    std::string text = size.machine.empty() ? "this host" : size.machine;
    if (size.batch) text += fmt::format(" with batch {}", *size.batch);
    return text;
}

}  // namespace partita::cli
