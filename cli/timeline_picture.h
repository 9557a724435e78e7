// SPDX-License-Identifier: Apache-2.0
//
// A timeline in text: one row per device, time from left to right, shade = share of the column's
// time that the device computes; the last row shows how much is being copied.
//
//     timeline of 1.43 ms, 24 us per column
//       gpu0    ████▓▓▒░    ▒▓███   84 %
//       gpu1        ░▒▓████▓▒       41 %
//       copies     ░    ░   ░
//
// With many devices the busiest are shown, in their own order, and the rest is counted.
#pragma once

#include <cstddef>
#include <string>

#include "cli/console.h"
#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/simulation/simulate.h"
#include "plan/tasks/task_graph.h"

namespace partita::cli {

/// The `most_rows` busiest devices, and how many others there are. "" when nothing runs.
std::string timeline_picture(const plan::Problem& problem, const plan::TaskGraph& tasks,
                             const plan::Timeline& timeline, const Terminal& terminal,
                             std::size_t most_rows);

/// For evaluations without an order: one bar per device, its load beside the largest.
std::string load_picture(const plan::Problem& problem, const plan::Evaluation& evaluation,
                         const Terminal& terminal, std::size_t most_rows);

}  // namespace partita::cli
