// SPDX-License-Identifier: Apache-2.0
#include "cost/discovery/cuda_figures.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/files.h"
#include "base/json.h"
#include "cost/machine/data_folder.h"
#include "cost/machine/machine_fields.h"

namespace partita::cost {

namespace {

constexpr std::int64_t kMostPerClock = 1'000'000;
constexpr std::int64_t kMostPicoseconds = 1'000'000'000'000;

std::int64_t per_clock(const JsonField& field) {
    return field.integer(1, kMostPerClock, {"FLOP per clock and SM > 0"});
}

double share(const JsonField& field) {
    return field.number(0.01, 1.0, {"a share from 0.01 to 1"});
}

std::filesystem::path data_path() {
    return data_folder() / "cuda_architectures.json";
}

}  // namespace

Device cuda_device(const CudaProperties& properties) {
    const std::filesystem::path path = data_path();
    const JsonFile file(read_text_file(path), path.string());
    const JsonField root = file.root();
    std::optional<JsonField> architecture;
    for (const JsonField& field : root["architectures"].items()) {
        const auto capability = field["capability"].integer(0, 10'000, {"10 * major + minor"});
        if (!architecture || capability <= properties.capability) architecture = field;
    }
    if (!architecture) root["architectures"].reject("there are none. Install Partita again.");

    const auto at_least_one = [](double value) {
        return std::max<std::int64_t>(1, static_cast<std::int64_t>(value));
    };
    const double clocks =
        static_cast<double>(properties.multiprocessors) * static_cast<double>(properties.clock_hz);
    Device device;
    device.model = properties.name;
    device.kind = DeviceKind::gpu;
    device.memory = std::max(Bytes{1}, properties.memory);
    device.reserved = default_reserved(device.kind, device.memory);
    device.memory_bandwidth = at_least_one(static_cast<double>(properties.memory_clock_hz) * 2 *
                                           properties.memory_bus_bits / 8);
    // Where kernels have a table, its curves say what they take, and this is less than any of them.
    const JsonField own = (*architecture)["launch_interval_ps"];
    device.launch_interval =
        Time((own.present() ? own : root["launch_interval_ps"])
                 .integer(0, kMostPicoseconds, {"picoseconds from 0 to 10^12"}));
    const JsonField matrix = (*architecture)["matrix"];
    for (const std::string& name : matrix.keys()) {
        matrix_flops_named(matrix[name], name, device) =
            at_least_one(static_cast<double>(per_clock(matrix[name])) * clocks);
    }
    device.vector_flops =
        at_least_one(static_cast<double>(per_clock((*architecture)["vector"])) * clocks);
    if (const JsonField kernels = (*architecture)["kernels"]; kernels.present()) {
        device.kernels = kernel_table_named(kernels.text({"the name of a kernel table"}));
    }
    device.compute_efficiency = share(root["compute_efficiency"]);
    device.memory_efficiency = share(root["memory_efficiency"]);
    device.source = fmt::format(
        "SMs, clocks and memory: the CUDA driver; FLOP per clock and SM: {}; launch interval and "
        "efficiencies: {}",
        (*architecture)["source"].text({"a text"}), root["source"].text({"a text"}));
    return device;
}

Link cuda_host_link() {
    const std::filesystem::path path = data_path();
    const JsonFile file(read_text_file(path), path.string());
    return read_link_figures(file.root()["host_link"]);
}

}  // namespace partita::cost
