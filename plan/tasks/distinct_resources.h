// SPDX-License-Identifier: Apache-2.0
//
// Resource sets without twins. Resources that are in the same sets of a graph's tasks are busy at
// the same times, so that one of them tells for all: a collective of a thousand ranks occupies their
// thousand send rows, and where they do nothing else apart, one.
#pragma once

#include <cstdint>

#include "base/csr.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

struct DistinctResources {
    explicit DistinctResources(const TaskGraph& graph);

    Csr<std::int32_t> resources;  ///< per resource set of the graph, rising
    Csr<std::int32_t> hosts;      ///< the same; empty rows where launching is free
};

}  // namespace partita::plan
