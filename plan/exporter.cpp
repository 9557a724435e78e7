// SPDX-License-Identifier: Apache-2.0
#include "plan/exporter.h"

#include <algorithm>
#include <array>

#include "plan/chrome_trace.h"
#include "plan/dot.h"

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
    };
    return kExporters;
}

const ExporterRow* find_exporter(std::string_view name) {
    const auto rows = exporter_table();
    const auto row = std::ranges::find(rows, name, &ExporterRow::name);
    return row == rows.end() ? nullptr : &*row;
}

}  // namespace partita::plan
