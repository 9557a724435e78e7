// SPDX-License-Identifier: Apache-2.0
//
// The load of a device in a full pipeline, where every device works on a sample of its own and the
// busiest one sets the pace (time per sample = the largest load).
//
// Given costs (REFERENCES 8, the throughput objective of the dnn-partitioning workloads):
//
//     load(accelerator) = sum of its nodes' accelerator times
//                       + cost(u) for each of its nodes u with a successor on another device, once
//                       + cost(u) for each node u elsewhere with a successor here, once
//     load(CPU)         = sum of its nodes' CPU times; no communication is charged to a CPU
//
// Source: Tarnawski et al., NeurIPS 2020, section 3.
#pragma once

#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// Do the ops carry the costs of a workload file?
bool has_given_costs(const Problem& problem);

/// Loads (as `busy`), memory and the largest load under given costs.
Evaluation given_max_load(const Problem& problem, const Strategy& strategy);

/// Largest sum of durations on one resource: compute rows, send and receive rows, channels.
Time busiest_resource(const TaskGraph& graph);

}  // namespace partita::plan
