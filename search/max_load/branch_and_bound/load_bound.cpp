// SPDX-License-Identifier: Apache-2.0
#include "search/max_load/branch_and_bound/load_bound.h"

#include <algorithm>
#include <utility>

#include "search/coarsening/group_graph.h"
#include "search/max_load/branch_and_bound/load_tree.h"
#include "search/max_load/model/load_graph.h"
#include "search/max_load/model/piece_graph.h"

namespace partita::search {

namespace {

constexpr std::int64_t kOperations = 200'000'000;
constexpr std::int64_t kPerTarget = 25'000'000;
constexpr std::int64_t kFirstStep = 16;    ///< part of the bound that the first step is
constexpr std::int64_t kFinest = 2'000;    ///< part of the bound that the last step is
constexpr std::int64_t kFewestSteps = 50;  ///< of an ascent; larger graphs: the known bound

}  // namespace

Time load_bound(const plan::Problem& problem, Time known) {
    if (static_cast<std::size_t>(problem.device_count()) > kMostMaskDevices) return known;
    OpGroups groups = make_groups(problem, Grouping::required_only);
    if (!groups.conflict.empty()) return known;
    const LoadProblem load = make_load_problem(GroupGraph(problem, std::move(groups)));
    LoadTreeOptions options;
    const std::int64_t most = kPerTarget / LoadTree::operations_per_step(load) / 2;
    if (most < kFewestSteps) return known;
    options.root_steps = static_cast<int>(std::min<std::int64_t>(options.root_steps, most));
    LoadTree tree(load, options);
    std::int64_t bound = known.raw();
    std::int64_t step = bound / kFirstStep + 1;
    // Where nothing fits the memory, no target is too high: the bound stops at kNever.
    while (tree.operations() < kOperations && bound < kNever && step > bound / kFinest) {
        step = std::min(step, kNever - bound);
        tree.look_below(bound + step);
        if (tree.advance(kPerTarget) && !tree.solution()) {
            bound += step;
            step *= 2;
        } else {
            step /= 4;
        }
    }
    return Time(bound);
}

}  // namespace partita::search
