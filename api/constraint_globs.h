// SPDX-License-Identifier: Apache-2.0
//
// Constraints by name: globs over op names, devices that ops may use, ops that stay together. What
// the file of --fix and PlanOptions have in common.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "plan/problem/problem.h"

namespace partita::api {

/// Leaves the ops no device but these, and of earlier restrictions what both allow. Returns an op
/// that has no device then; the constraints are of no use after that.
std::optional<graph::OpId> restrict_devices(plan::Constraints& constraints,
                                            const graph::OpGraph& graph,
                                            const std::vector<graph::OpId>& ops,
                                            std::vector<int> devices);

/// One device for all of them.
void keep_together(plan::Constraints& constraints, std::vector<graph::OpId> ops);

}  // namespace partita::api
