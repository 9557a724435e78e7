// SPDX-License-Identifier: Apache-2.0
//
// The figures of a device and of a link in JSON, read and written: what the flat form and the node
// form of machine files have in common. Errors: InputError naming the field; a number may be
// a text with its unit ("300 GB/s").
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cost/machine/machine.h"

namespace partita::cost {

/// Fields of a device's and of a link's figures, for JsonField::allow_only().
inline constexpr std::array<std::string_view, 14> kDeviceFigures = {
    "model",        "kind",         "memory_bytes",   "memory_bandwidth",   "launch_interval_ps",
    "matrix_flops", "vector_flops", "kernels",        "compute_efficiency", "memory_efficiency",
    "source",       "threads",      "reserved_bytes", "price_per_hour"};
inline constexpr std::array<std::string_view, 5> kLinkFigures = {"bandwidth", "latency_ps", "mode",
                                                                 "efficiency", "source"};

/// The figures of a device; name and node are left to the caller.
Device read_device_figures(const JsonField& field);

/// Beside element types in "matrix_flops": products of float32 in TF32.
inline constexpr std::string_view kTf32 = "tf32";
/// The figure of that name in "matrix_flops", of which `field` is the one; else `field` is rejected.
std::int64_t& matrix_flops_named(const JsonField& field, std::string_view name, Device& device);

/// The figures of a link; name and ends are left to the caller.
Link read_link_figures(const JsonField& field);

/// A switch: a name alone, or {"name": ..., "reduces": true}.
struct SwitchFigures {
    std::string name;
    bool reduces = false;
};
SwitchFigures read_switch(const JsonField& field);

/// "collectives" of a machine: model and source; nothing when the field is missing.
MachineCollectives read_collectives(const JsonField& field);

/// "torus", or extents elsewhere; none when the field is missing.
std::vector<int> read_extents(const JsonField& field);

/// data/kernels/NAME.json, read once. Throws InputError when there is none.
std::shared_ptr<const KernelTable> kernel_table_named(const std::string& name);

/// A name of at most 200 characters.
std::string read_name(const JsonField& field);

/// What read_device_figures() and read_link_figures() read, without braces; `behind_kind` goes behind
/// the kind of the device.
std::string figures_json(const Device& device, std::string_view behind_kind = {});
std::string figures_json(const Link& link);

inline constexpr std::string_view kMachineFormat = "partita-machine";
/// The first lines of a machine file, up to its collectives.
std::string machine_head_json(const Machine& machine, int indent);
/// `count` of its switches, each without the first `prefix` characters of its name.
std::vector<std::string> switches_json(const Machine& machine, int first, int count,
                                       std::size_t prefix = 0);
/// [], or one item per line behind `margin`.
std::string json_lines(const std::vector<std::string>& lines, const std::string& margin);

std::string_view name_of(DeviceKind kind);
std::string_view name_of(LinkMode mode);

}  // namespace partita::cost
