// SPDX-License-Identifier: Apache-2.0
//
// A workload of examples/workloads as it is planned: its graph, its machine, its colour classes.
#pragma once

#include <string_view>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"

namespace partita::plan {

struct PublicWorkload {
    graph::OpGraph graph;
    cost::Machine machine;
    ProblemOptions options;
};

/// `file` without ending, e.g. "throughput/layer_gnmt_inference"; its folder is the objective.
PublicWorkload public_workload(std::string_view file);

}  // namespace partita::plan
