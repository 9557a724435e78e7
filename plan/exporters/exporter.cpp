// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>

#include "base/error.h"
#include "plan/exporters/chrome_trace.h"
#include "plan/exporters/dot.h"
#include "plan/exporters/dtensor.h"
#include "plan/exporters/nccl_tuner.h"
#include "plan/exporters/shardy.h"
#include "plan/exporters/training_frameworks.h"

namespace partita::plan {

std::span<const ExporterRow> exporter_table() {
    static constexpr std::array kExporters = {
        ExporterRow{.name = "chrome-trace",
                    .summary = "the timeline, for ui.perfetto.dev or chrome://tracing",
                    .needs_timeline = true,
                    .write = chrome_trace},
        ExporterRow{.name = "deepspeed",
                    .summary = "a regular grid as DeepSpeed's configuration",
                    .needs_timeline = false,
                    .write = deepspeed},
        ExporterRow{.name = "dot",
                    .summary = "the graph coloured by device, for Graphviz",
                    .needs_timeline = false,
                    .write = dot},
        ExporterRow{
            .name = "dtensor",
            .summary = "device meshes and placements of every tensor, for PyTorch's DTensor",
            .needs_timeline = false,
            .write = dtensor},
        ExporterRow{.name = "megatron",
                    .summary = "a regular grid as arguments of Megatron-LM",
                    .needs_timeline = false,
                    .write = megatron},
        ExporterRow{.name = "nccl-tuner",
                    .summary = "algorithm and protocol of collectives, for NCCL's tuner plugin",
                    .needs_timeline = false,
                    .write = nccl_tuner},
        ExporterRow{.name = "shardy",
                    .summary = "an MLIR module with meshes and shardings, for OpenXLA's Shardy",
                    .needs_timeline = false,
                    .write = shardy},
        ExporterRow{.name = "torchtitan",
                    .summary = "a regular grid as torchtitan's TOML",
                    .needs_timeline = false,
                    .write = torchtitan},
    };
    return kExporters;
}

const ExporterRow* find_exporter(std::string_view name) {
    const auto rows = exporter_table();
    const auto row = std::ranges::find(rows, name, &ExporterRow::name);
    return row == rows.end() ? nullptr : &*row;
}

std::string export_as(std::string_view name, const ExportInput& input) {
    const ExporterRow* const known = find_exporter(name);
    assert(known != nullptr);
    const ExporterRow& row = *known;
    if (row.needs_timeline && (input.tasks == nullptr || input.timeline == nullptr)) {
        throw UsageError(fmt::format(
            "{}: a plan of given costs has loads and no timeline. Plan an ONNX model to "
            "get one.",
            name));
    }
    return row.write(input);
}

}  // namespace partita::plan
