// SPDX-License-Identifier: Apache-2.0
//
// Machines as files (docs/file-formats.md): the flat form lists devices, switches and links; the
// node form describes one node and a network and is expanded when read, so that a preset can be had
// in any size: "dgx-h100:4" = 4 nodes, "p100-cluster:2x4" = 2 nodes of 4 devices, "cpu:2" = 2 CPUs,
// "tpu-v5e:4x8" = a torus of 4 times 8.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cost/machine/machine.h"

namespace partita::cost {

/// The size that follows the name of a preset: what it counts the file says. Empty: what the file has.
struct MachineSize {
    std::vector<int> numbers;  ///< "2x4": 2, 4
    [[nodiscard]] bool given() const { return !numbers.empty(); }
};

/// Reads either form. `context` is the file's name in messages. Throws InputError naming the field;
/// UsageError when the machine cannot have that size.
Machine parse_machine(std::string_view json, const std::string& context,
                      const MachineSize& size = {});

/// Of a machine embedded in another file.
Machine parse_machine(const JsonField& field, const MachineSize& size = {});

/// Canonical: stable key order, integers, one device or link per line. The flat form; of more than 256
/// devices the node form where the machine has one. `indent` spaces in front of every line but the
/// first, for embedding in plan.json.
std::string to_json(const Machine& machine, int indent = 0);

struct Preset {
    std::string name;
    std::string summary;  ///< one line: what it is, how it can be sized
    std::filesystem::path file;
};

/// Presets in data/machines, by name. Throws InputError when the folder is missing.
std::vector<Preset> presets();

/// A preset with optional size ("dgx-h200:2"), so many devices by their name ("16xH200"), or a machine
/// file when `spec` ends in ".json". Throws UsageError
/// for an unknown preset (naming the known ones), InputError for a bad file.
Machine load_machine(const std::string& spec);

}  // namespace partita::cost
