// SPDX-License-Identifier: Apache-2.0
//
// The latency of one sample where accelerators are called with subgraphs (REFERENCES 8, the latency
// objective of the dnn-partitioning workloads). A call waits for all it reads, and nobody sees a
// result before its end:
//
//     call S of an accelerator   start = latest end of what it reads
//                                end   = start + cost(u) for each u elsewhere that S reads, once
//                                              + the accelerator times of S
//                                              + cost(u) for each u in S that is read elsewhere, once
//     op on a CPU                a call of its own, for its CPU time; no communication
//
//     latency = latest end
//
// CPUs are as many as are needed: which one an op is on makes no difference. What an accelerator
// holds is one call if that is possible. If not, it is cut into the fewest in the order of its
// levels:
//
//     level(v) = 0 if nothing before v is on the accelerator; then the most of, over the edges u -> v,
//         level(u) + 1    where the edge enters the accelerator
//         level(u)        where it does not
//     and 1 at least on it                         ops of one level are one call, connected or not
//
//     a1 ──▶ a2 ──▶ b ──▶ a3       calls of a: {a1 a2} and {a3}, each with its own communication
//      1      1     1      2
//
// Calls of one accelerator do not wait for each other, only for what they read. That is greedy.cpp
// (-computeLatency); it fails where calls of several accelerators wait for each other all the same:
//
//     a1 ──▶ b2 and b1 ──▶ a2      {a1 a2} and {b1 b2} wait for each other
//
// Here, calls on such cycles, and between two of them, are cut once more, by the number of edges
// between different ones of them on the longest path to an op. Nothing depends on the numbering of
// the ops.
//
// Source: Tarnawski et al., NeurIPS 2020, section 4; latency-greedy/greedy.cpp of its code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/evaluation/call_costs.h"
#include "plan/evaluation/evaluator.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// Given costs, and latency as the objective?
bool is_subgraph_latency(const Problem& problem);

struct SubgraphCall {
    std::int32_t device = -1;
    std::int64_t start = 0;   ///< ps
    std::int64_t length = 0;  ///< ps, with its communication
    [[nodiscard]] std::int64_t end() const { return start + length; }
};

/// Cuts placements into calls and says when these run. Not thread-safe: one object per thread.
/// Levels are found anew only for devices that hold other ops than in the placement before.
class SubgraphCalls {
public:
    /// `costs` must outlive it.
    explicit SubgraphCalls(const CallCosts& costs);

    /// The latency of a device for each op, ps.
    std::int64_t run(std::span<const std::int32_t> device_of);

    // Of the latest placement.
    [[nodiscard]] std::span<const SubgraphCall> calls() const { return calls_; }
    [[nodiscard]] std::int32_t call_of(std::size_t op) const { return call_of_[op]; }
    /// Greedy.cpp would have failed: accelerators wait for each other.
    [[nodiscard]] bool was_cyclic() const { return cyclic_; }

private:
    struct Edge {
        std::int32_t to = 0;    ///< the other call
        std::int32_t next = 0;  ///< edge of the same call; -1: none
    };

    void find_levels(std::int32_t device);
    void number_calls();
    void price_calls();
    void join(std::size_t op);
    [[nodiscard]] bool order_calls();
    void keep_cycles();
    void cut_cycles();

    const CallCosts& costs_;
    std::span<const std::int32_t> device_of_;
    std::vector<std::int32_t> known_;  ///< devices of the placement before; -1: none
    bool cyclic_ = false;
    std::int64_t latency_ = 0;
    std::vector<SubgraphCall> calls_;
    std::vector<std::int32_t> call_of_;  ///< per op
    std::vector<std::int32_t> level_;    ///< per op, on its accelerator
    // Per device.
    std::vector<char> changed_;  ///< since the placement before: its levels are found anew
    std::vector<std::int32_t> first_;
    std::vector<std::int32_t> last_;
    std::vector<std::int32_t> levels_;
    std::vector<std::int32_t> offset_;
    std::vector<std::int32_t> course_;  ///< levels per op, for one device, or inside cycles
    // Per call.
    std::vector<std::int32_t> edges_of_;  ///< its first edge
    std::vector<std::int32_t> waiting_;   ///< edges from calls that have not ended
    std::vector<std::int32_t> seen_;      ///< the latest op that it reads
    std::vector<char> on_cycle_;
    std::vector<std::int32_t> before_of_;  ///< its first edge from one on a cycle, backwards
    std::vector<std::int32_t> readers_;    ///< edges to those on cycles
    std::vector<Edge> edges_;
    std::vector<Edge> before_;
    std::vector<std::int32_t> ready_;
    std::vector<std::int32_t> sorted_;  ///< ops
};

/// Latency, memory, and as `busy` the time of all calls of a device, of a CPU of all its ops.
class SubgraphLatency {
public:
    /// `problem` must outlive it.
    explicit SubgraphLatency(const Problem& problem);

    Evaluation evaluate(const Strategy& strategy);
    [[nodiscard]] const SubgraphCalls& calls() const { return calls_; }

private:
    const Problem& problem_;
    CallCosts costs_;
    SubgraphCalls calls_;
    std::vector<std::int32_t> device_of_;
};

}  // namespace partita::plan
