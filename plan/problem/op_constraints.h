// SPDX-License-Identifier: Apache-2.0
//
// Constraints on ops: the devices that each may use, which ops share one, which factors may be
// split, and how much memory there is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "graph/operators/soap.h"
#include "plan/problem/graph_facts.h"
#include "plan/problem/problem_options.h"

namespace partita::plan {

/// Throws UsageError when a constraint names an op or a device that does not exist.
void check_constraints(const graph::OpGraph& graph, const cost::Machine& machine,
                       const Constraints& constraints);

/// Nodes of a workload that no accelerator supports are for CPUs alone. Throws InputError when one
/// may use none.
void keep_on_cpus(const graph::OpGraph& graph, const cost::Machine& machine,
                  Constraints& constraints);

class OpConstraints {
public:
    /// Of constraints that are checked. The facts and the machine must outlive the object.
    OpConstraints(const GraphFacts& facts, const cost::Machine& machine,
                  const Constraints& constraints);

    /// Rising; never empty.
    [[nodiscard]] const std::vector<int>& allowed_devices(graph::OpId op) const {
        const bool any = op.index() >= allowed_.size() || allowed_[op.index()].empty();
        return any ? all_devices_ : allowed_[op.index()];
    }
    /// By op, as given: empty where any device will do, and maybe shorter than the graph.
    [[nodiscard]] const std::vector<std::vector<int>>& allowed() const { return allowed_; }
    /// Ops that share one device, set by set.
    [[nodiscard]] const std::vector<std::vector<graph::OpId>>& together() const {
        return together_;
    }
    /// min(machine, --memory-limit).
    [[nodiscard]] Bytes memory_capacity(int device) const;
    /// Was a --memory-limit given?
    [[nodiscard]] bool has_memory_limit() const { return memory_limit_.has_value(); }

    /// May no op be split?
    [[nodiscard]] bool whole_ops() const { return whole_ops_; }
    /// Is this factor of an op of a class that may be split?
    [[nodiscard]] bool may_split(graph::OpId op, std::size_t factor) const;
    /// An upper bound of the parts that an op can be cut into, replicas not counted; 1: never
    /// split.
    [[nodiscard]] std::int64_t split_limit(graph::OpId op) const;

private:
    const GraphFacts& facts_;
    const cost::Machine& machine_;
    std::vector<int> all_devices_;
    std::vector<std::vector<int>> allowed_;
    std::vector<std::vector<graph::OpId>> together_;
    std::optional<Bytes> memory_limit_;
    bool whole_ops_;
    /// Per op and factor whether it may be split; empty: all may.
    std::vector<std::vector<char>> splittable_;
};

}  // namespace partita::plan
