// SPDX-License-Identifier: Apache-2.0
//
// Several sizes at once: how many devices does one need?
//
//     --machine dgx-h100:1,2,4,cpu:2     dgx-h100:1, dgx-h100:2, dgx-h100:4 and cpu:2
//     --batch 16,32                      each of them with both
//     --devices-at-most 64               of a preset without a size: 1, 2, 4, ... of it, up to 64 devices;
//                                        of machines that are named: those that have no more
//     --step-time-at-most 1s             the fewest devices that reach it are the best size
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/units.h"

namespace partita::cli {

/// A machine as --machine takes one, and a batch.
struct Size {
    std::string machine;                ///< "": this host, or what a workload names
    std::optional<std::int64_t> batch;  ///< none: as the model is bound
};

struct SizeOptions {
    std::vector<std::int64_t> batches;  ///< of --batch
    std::optional<std::int64_t> most_devices;
    std::optional<Time> most_time;  ///< of a step
};

void add_size_options(CLI::App& app, SizeOptions& options);

/// Is a table asked for?
bool asks_for_table(const std::string& machine, const SizeOptions& options);

/// At least one, machines in their order, each with all batches. Throws UsageError for a machine that
/// there is not, and where --devices-at-most leaves none.
std::vector<Size> sizes_of(const std::string& machine, const SizeOptions& options);

/// "dgx-h100:1 with batch 16".
std::string size_text(const Size& size);

}  // namespace partita::cli
