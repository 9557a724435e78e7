// SPDX-License-Identifier: Apache-2.0
//
// What prices decide in lowering, as a plan has it: which collectives are joined (join.h), and how each
// of them is done. All else about tasks follows from model, machine and strategy, so by any prices a plan
// is lowered to its own tasks, and its order is one of them.
//
//     may be joined      all-reduce fc.w.grad gpu0       all-reduce fc.b.grad gpu0
//     the plan lists     all-reduce fc.w.grad gpu0       then both go alone
//                        all-reduce fc.b.grad gpu0
//     or                 all-reduce fc.w.grad +1 gpu0    then they are joined
//
// A plan lists every collective by its name. One that goes alone has the name that it had before joins
// were made, one that is joined has not.
//
// Threads: const. Errors: none; tasks that differ from the plan's all the same are verify()'s to find.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "graph/op_graph.h"
#include "plan/plan_file.h"
#include "plan/task_graph.h"

namespace partita::plan {

class PlannedCollectives {
public:
    /// Both must outlive it.
    PlannedCollectives(const graph::OpGraph& graph, const Plan& plan);

    /// Does the plan list a collective of its name?
    [[nodiscard]] bool has(const Task& collective) const { return find(collective) != nullptr; }
    /// Gives every collective that the plan lists the plan's algorithm and protocol.
    void choose_algorithms(TaskGraph& tasks) const;

private:
    [[nodiscard]] const PlannedCollective* find(const Task& collective) const;

    const graph::OpGraph& graph_;
    const Plan& plan_;
    std::map<std::string_view, const PlannedCollective*> by_name_;
};

}  // namespace partita::plan
