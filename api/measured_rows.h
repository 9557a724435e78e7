// SPDX-License-Identifier: Apache-2.0
//
// From the times that tasks took to rows of a profile database (plan/tasks/task_measurements.h says
// which).
//
//     execute ─▶ times per task ─▶ rows: tasks that are measurements of one thing make one row
//
// CPU devices are kept by the number of threads that each of them ran with. What moves is only kept
// where every device of the plan had a real one of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/profile/profile.h"
#include "cost/profile/profile_database.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/task_graph.h"
#include "runtime/interface/runtime.h"

namespace partita::api {

struct MeasuredRun {
    const plan::Problem& problem;
    const plan::Strategy& strategy;
    const plan::TaskGraph& tasks;
    const runtime::ExecuteResult& result;
};

/// `versions` as in cost::Measurement; `seconds` since 1970-01-01. Keys rising.
std::vector<cost::DeviceProfile> measured_rows(const MeasuredRun& run, const std::string& versions,
                                               std::int64_t seconds);

/// Of several measurements of one thing the median of their medians, and of their quartiles; not
/// empty.
cost::Measurement pooled(std::vector<cost::Measurement> all);

struct RowCount {
    std::int64_t works = 0;
    std::int64_t transfers = 0;
};
RowCount add_rows(cost::ProfileDatabase& database, const std::vector<cost::DeviceProfile>& rows);

}  // namespace partita::api
