// SPDX-License-Identifier: Apache-2.0
#include "tests/search/max_load/model/assignments.h"

#include "search/coarsening/group_graph.h"
#include "search/coarsening/op_groups.h"
#include "search/max_load/model/load_state.h"
#include "tests/search/max_load/contiguous/contiguous_cases.h"

namespace partita::search {

Assignments assignments_of(Random& random) {
    const SmallWorkload small = small_workload(random);
    const plan::Problem problem = throughput_of(small);
    const GroupGraph groups(problem, make_groups(problem, Grouping::all));
    Assignments result{.problem = make_load_problem(groups), .all = {}};
    LoadState state(result.problem.graph, result.problem.devices);
    const auto count = static_cast<std::int32_t>(result.problem.devices.size());
    std::vector<std::int32_t> devices(result.problem.graph.size, 0);
    for (bool more = true; more;) {
        bool allowed = true;
        for (std::size_t v = 0; v < devices.size(); ++v) {
            allowed = allowed && state.allowed(v, static_cast<std::size_t>(devices[v]));
        }
        if (allowed) {
            state.assign(devices);
            if (state.score().overflow == 0) result.all.emplace_back(state.score().load, devices);
        }
        more = false;
        for (std::int32_t& device : devices) {
            more = ++device < count;
            if (more) break;
            device = 0;
        }
    }
    return result;
}

}  // namespace partita::search
