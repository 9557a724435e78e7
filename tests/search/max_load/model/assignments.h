// SPDX-License-Identifier: Apache-2.0
//
// Load problems small enough to list every assignment.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "search/max_load/model/load_graph.h"
#include "search/support/random.h"

namespace partita::search {

/// All assignments of a small workload that its devices allow and hold.
struct Assignments {
    LoadProblem problem;
    std::vector<std::pair<std::int64_t, std::vector<std::int32_t>>>
        all;  ///< largest load, and devices
};

/// Of small_workload() (tests/search/max_load/contiguous/contiguous_cases.h).
Assignments assignments_of(Random& random);

}  // namespace partita::search
