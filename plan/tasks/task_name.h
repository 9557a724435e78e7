// SPDX-License-Identifier: Apache-2.0
//
// Names of tasks as a machine says them that need not be the problem's: a plan names its tasks by
// the devices of the machine that it was made for.
#pragma once

#include <string>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// As task_name() of task_graph.h. The devices of the task must be of the machine.
std::string task_name(const graph::OpGraph& graph, const cost::Machine& machine, const Task& task);

}  // namespace partita::plan
