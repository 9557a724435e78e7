// SPDX-License-Identifier: Apache-2.0
#include "search/lower_bound.h"

#include <algorithm>

#include "plan/subgraph_latency.h"
#include "search/call_bound.h"
#include "search/path_bound.h"
#include "search/work_bound.h"

namespace partita::search {

LowerBound lower_bound(const plan::Problem& problem) {
    const WorkBound work(problem);
    LowerBound bound;
    if (plan::is_subgraph_latency(problem)) {
        bound.shortage = work.shortage();
        bound.critical_path = path_bounds(problem, work).critical_path;
        bound.calls = call_bound(problem);
        bound.value = std::max(bound.critical_path, bound.calls);
        return bound;
    }
    bound.work = work.work();
    bound.unit = work.unit();
    bound.shortage = work.shortage();
    if (problem.objective() != plan::Objective::throughput) {
        const PathBounds path = path_bounds(problem, work);
        bound.critical_path = path.critical_path;
        bound.windows = path.windows;
        bound.stage = path.stage;
    }
    bound.value =
        std::max({bound.work, bound.unit, bound.critical_path, bound.windows, bound.stage});
    return bound;
}

}  // namespace partita::search
