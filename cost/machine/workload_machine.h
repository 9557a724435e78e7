// SPDX-License-Identifier: Apache-2.0
//
// The machine that a workload file asks for: accelerators, then CPUs, with links that cost nothing,
// because the file gives the time of every computation and every communication itself.
#pragma once

#include "base/units.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"

namespace partita::cost {

/// Devices 0..accelerators-1 are accelerators of `memory` each, the rest CPUs with room for the
/// whole graph. Their speeds have the ratio of the graph's accelerator and CPU times, for searchers
/// that compare devices; they price nothing. `accelerators` + `cpus` >= 1.
Machine make_workload_machine(const graph::OpGraph& graph, int accelerators, int cpus,
                              Bytes memory);

}  // namespace partita::cost
