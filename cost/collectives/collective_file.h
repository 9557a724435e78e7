// SPDX-License-Identifier: Apache-2.0
//
// Collective models as files, data/collectives/models/*.json (docs/file-formats.md): which measured
// logs, fitted constants and topology price the collectives of a machine.
//
//     tables, in the order of the file > fitted constants > NCCL's tuning model > alpha-beta
//
// A machine may also name "nccl" (nccl_links.h, then alpha-beta) or "alpha-beta". One that names
// nothing gets the first where NCCL has constants for its GPUs, else the second.
//
// Threads: pure. Errors: InputError naming file and field.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "cost/collectives/collective.h"

namespace partita::cost {

/// Reads one model; its logs and NCCL's constants lie in the folder above its own.
std::shared_ptr<const CollectiveModel> load_collective_model(const std::filesystem::path& file);

/// Says that the machine's links are not those that its model was measured on ("machine" in the
/// file), so that collectives are scaled (measured_links.h); null where they are.
std::optional<std::string> collectives_note(const Machine& machine);

}  // namespace partita::cost
