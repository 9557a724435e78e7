// SPDX-License-Identifier: Apache-2.0
//
// Workloads small enough to try every assignment, and contiguity by its other definition: a plan is
// contiguous when no device can be reached again from itself through another one, along edges
// between forward nodes.
#pragma once

#include <optional>
#include <vector>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/portfolio/search_run.h"
#include "search/support/random.h"

namespace partita::search {

struct SmallWorkload {
    graph::OpGraph graph;
    cost::Machine machine;  ///< two accelerators and a CPU, or three accelerators
    std::vector<std::vector<graph::OpId>> together;
    Bytes memory;  ///< of each device
};

/// Up to six classes of forward nodes, in half of the cases with backward nodes: most in the class
/// of their forward node, some in one of their own. Some nodes for CPUs alone, some classes of
/// several forward nodes, now and then in a circle.
SmallWorkload small_workload(Random& random);

/// Its throughput, with its classes and memory; refers to `small`.
plan::Problem throughput_of(const SmallWorkload& small);

/// Expects of a searcher that has `best` as its value and verifies, or is infeasible with a reason
/// where there is none. Returns whether there is one.
bool expect_best(const plan::Problem& problem, const SearchResult& result,
                 const std::optional<Time>& best);

/// Of whole ops.
bool is_contiguous(const plan::Problem& problem, const plan::Strategy& strategy);

/// Nullopt: none fits.
std::optional<Time> best_contiguous_by_enumeration(const plan::Problem& problem);
/// Of all assignments, contiguous or not.
std::optional<Time> best_by_enumeration(const plan::Problem& problem);

/// The same graph in another topological order, with other names.
graph::OpGraph renumbered(const graph::OpGraph& graph, Random& random);

}  // namespace partita::search
