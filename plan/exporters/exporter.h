// SPDX-License-Identifier: Apache-2.0
//
// Exporters turn a planned strategy into another tool's file. Adding a row to exporter_table() is
// the whole registration: `partita export --format`, its help and the tests read the table.
//
// Pure and deterministic: the same input gives the same bytes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

struct ExportInput {
    const Problem& problem;
    const Strategy& strategy;
    const TaskGraph* tasks = nullptr;    ///< null: the plan has no order (given costs)
    const Timeline* timeline = nullptr;  ///< of `tasks`
};

struct ExporterRow {
    std::string_view name;
    std::string_view summary;
    bool needs_timeline = false;  ///< tasks and timeline must be there
    std::string (*write)(const ExportInput& input) = nullptr;
};
std::span<const ExporterRow> exporter_table();

/// The row, or null when there is no such format.
const ExporterRow* find_exporter(std::string_view name);

/// Of a format of the table. Throws UsageError for one that needs a timeline when there is none.
std::string export_as(std::string_view name, const ExportInput& input);

}  // namespace partita::plan
