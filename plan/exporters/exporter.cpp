// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "plan/exporters/chrome_trace.h"
#include "plan/exporters/dot.h"
#include "plan/exporters/dtensor.h"
#include "plan/exporters/nccl_tuner.h"
#include "plan/exporters/shardy.h"

namespace partita::plan {

std::span<const ExporterRow> exporter_table() {
    static constexpr std::array kExporters = {
        ExporterRow{.name = "chrome-trace",
                    .summary = "the timeline, for ui.perfetto.dev or chrome://tracing",
                    .needs_timeline = true,
                    .write = chrome_trace},
        ExporterRow{.name = "dot",
                    .summary = "the graph coloured by device, for Graphviz",
                    .needs_timeline = false,
                    .write = dot},
        ExporterRow{
            .name = "dtensor",
            .summary = "device meshes and placements of every tensor, for PyTorch's DTensor",
            .needs_timeline = false,
            .write = dtensor},
        ExporterRow{.name = "nccl-tuner",
                    .summary = "algorithm and protocol of collectives, for NCCL's tuner plugin",
                    .needs_timeline = false,
                    .write = nccl_tuner},
        ExporterRow{.name = "shardy",
                    .summary = "an MLIR module with meshes and shardings, for OpenXLA's Shardy",
                    .needs_timeline = false,
                    .write = shardy},
    };
    return kExporters;
}

const ExporterRow* find_exporter(std::string_view name) {
    const auto rows = exporter_table();
    const auto row = std::ranges::find(rows, name, &ExporterRow::name);
    return row == rows.end() ? nullptr : &*row;
}

void check_format(std::string_view name) {
    if (find_exporter(name) != nullptr) return;
    std::string known;
    for (const ExporterRow& row : exporter_table()) {
        known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    }
    throw UsageError(fmt::format("--format {}: unknown. There is: {}.", name, known));
}

std::string export_as(std::string_view name, const ExportInput& input) {
    check_format(name);
    const ExporterRow& row = *find_exporter(name);
    if (row.needs_timeline && (input.tasks == nullptr || input.timeline == nullptr)) {
        throw UsageError(fmt::format(
            "{}: a plan of given costs has loads and no timeline. Plan an ONNX model to "
            "get one.",
            name));
    }
    return row.write(input);
}

}  // namespace partita::plan
