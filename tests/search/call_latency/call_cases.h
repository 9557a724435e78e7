// SPDX-License-Identifier: Apache-2.0
//
// Small workloads whose latency of subgraph calls is searched and bounded.
#pragma once

#include <functional>
#include <optional>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "search/support/random.h"

namespace partita::search {

/// A random workload of `ops` on some accelerators and CPUs, with scarce memory, ops that share a
/// device and ops that are fixed, or without.
class CallCase {
public:
    CallCase(std::uint64_t seed, int ops, int accelerators, int cpus);

    [[nodiscard]] const plan::Problem& problem() const { return *problem_; }

    /// The least latency of all placements within memory; nullopt: there is none.
    [[nodiscard]] std::optional<Time> optimum() const;

private:
    graph::OpGraph graph_;
    cost::Machine machine_;
    std::optional<plan::Problem> problem_;
};

}  // namespace partita::search
