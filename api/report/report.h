// SPDX-License-Identifier: Apache-2.0
//
// plan --report, execute --report and Plan::report(): one self-contained page with the graph coloured by device, the
// timeline, as predicted and, of an execution, as measured, memory per device and a table of what
// the plan is compared with. No script, style or font comes from elsewhere, so the page works
// offline and years later.
//
// The page is report.html with its parts, embedded in the library by embed.cmake; this fills in its
// data as JSON. Names of a stranger's model cannot end the script element that holds them: `<` is written as \u003c.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/memory_kind.h"
#include "plan/tasks/task_graph.h"
#include "plan/tasks/task_run.h"

namespace partita::api {

/// Of an execution.
struct ReportMeasured {
    std::span<const plan::TaskRun> runs;  ///< of one iteration
    std::vector<Time> busy;               ///< per device, computing
    std::vector<Bytes> memory;            ///< per device, at its peak
};

struct ReportInput {
    const plan::Problem& problem;
    const plan::Strategy& strategy;
    const plan::Evaluation& evaluation;
    const plan::TaskGraph* tasks = nullptr;    ///< null: the plan has no order
    const plan::Timeline* timeline = nullptr;  ///< of `tasks`
    std::vector<plan::MemoryByKind> memory;    ///< of plan::Priced
    std::string title;
    std::string subtitle;
    std::vector<std::pair<std::string, std::string>> facts;  ///< label and value
    std::optional<ReportMeasured> measured = std::nullopt;   ///< needs a timeline
    std::string compared_heading = "Compared with";
    std::vector<std::string> compared_titles;
    std::vector<std::vector<std::string>> compared_rows;  ///< one cell per title
};

std::string report_page(const ReportInput& input);

}  // namespace partita::api
