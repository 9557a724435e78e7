// SPDX-License-Identifier: Apache-2.0
//
// Problems that moves are tested on: small networks with and without constraints, and strategies of
// different kinds to start from.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "search/coarsening/group_graph.h"
#include "search/configs/search_space.h"

namespace partita::search {

plan::ProblemOptions training(int micro_batches = 1);

/// A problem with all that moves look at.
struct Case {
    Case(graph::OpGraph of, const cost::Machine& on, const plan::ProblemOptions& options);

    [[nodiscard]] plan::Strategy data_parallel() const;
    [[nodiscard]] graph::OpId op(const std::string& name) const { return *graph.find_op(name); }

    graph::OpGraph graph;
    cost::Machine machine;
    plan::Problem problem;
    GroupGraph groups;
    SearchSpace space;
};

std::vector<std::unique_ptr<Case>> cases();

/// Legal ones.
std::vector<plan::Strategy> starts(const Case& of);

}  // namespace partita::search
