// SPDX-License-Identifier: Apache-2.0
//
// What prices decide in lowering, as a plan has it: which collectives are fused
// (fused_collectives.h), and how each of them is done. All else about tasks follows from model,
// machine and strategy, so by any prices a plan is lowered to its own tasks, and its order is one
// of them.
//
//     may be fused       all-reduce fc.w.grad gpu0       all-reduce fc.b.grad gpu0
//     the plan lists     all-reduce fc.w.grad gpu0       then both go alone
//                        all-reduce fc.b.grad gpu0
//     or                 all-reduce fc.w.grad +1 gpu0    then they are fused
//
// A plan lists every collective by its name. One that goes alone has the name that it had before
// fusions were made, one that is fused has not.
//
// Threads: const. Errors: none; tasks that differ from the plan's all the same are verify()'s to
// find.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/collectives/collective.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

/// A collective of the task graph, and how it is done. Prices decide both (planned_collectives.h).
struct PlannedCollective {
    std::string task;  ///< task_name(): of several that were fused the first, and how many more
    cost::Algorithm algorithm = cost::Algorithm::direct;
    cost::Protocol protocol = cost::Protocol::none;
    friend bool operator==(const PlannedCollective&, const PlannedCollective&) = default;
};

/// All of them, in order of task.
std::vector<PlannedCollective> collectives_of(const Problem& problem, const TaskGraph& tasks);

class PlannedCollectives {
public:
    /// `machine`: the plan's own, which names the devices. All must outlive it.
    PlannedCollectives(const graph::OpGraph& graph, const cost::Machine& machine,
                       std::span<const PlannedCollective> collectives);

    /// Does the plan list a collective of its name?
    [[nodiscard]] bool has(const Task& collective) const { return find(collective) != nullptr; }
    /// Gives every collective that the plan lists the plan's algorithm and protocol.
    void choose_algorithms(TaskGraph& tasks) const;

private:
    [[nodiscard]] const PlannedCollective* find(const Task& collective) const;

    const graph::OpGraph& graph_;
    const cost::Machine& machine_;
    std::map<std::string_view, const PlannedCollective*> by_name_;
};

}  // namespace partita::plan
