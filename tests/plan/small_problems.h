// SPDX-License-Identifier: Apache-2.0
//
// Problems small enough to draw: workload graphs with given times in microseconds, a two-layer
// network with real operators, and machines of equal GPUs on one switch.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// `gpus` equal GPUs of 1 GB on a switch: 1 GB/s each way, 1 us per hop; 1 TFLOP/s, 100 GB/s.
/// `nodes`: of each GPU; all in one when empty.
cost::Machine switched_machine(int gpus, const std::vector<int>& nodes = {});

/// The same, each GPU with so much memory.
cost::Machine switched_machine_of(int gpus, Bytes memory);

/// Nodes of `size` such GPUs each; inside a node there are 100 GB/s each way, and 1 ps per hop.
cost::Machine machine_of_nodes(int nodes, int size);

class WorkloadBuilder {
public:
    /// A node that takes `microseconds` on an accelerator, its result `copy` to send.
    WorkloadBuilder& node(const std::string& name, std::int64_t microseconds,
                          std::initializer_list<const char*> operands = {}, std::int64_t copy = 1,
                          Bytes memory = Bytes{0});
    [[nodiscard]] graph::OpGraph build() { return graph_; }

private:
    graph::OpGraph graph_;
};

/// x [8 16] -> MatMul w1 [16 16] -> Relu -> MatMul w2 [16 4] -> y; ops in order of id:
/// x w1 mul1 relu w2 mul2 y
graph::OpGraph two_layers();

/// A problem with the default cost model. Graph and machine must outlive it.
Problem make_problem(const graph::OpGraph& graph, const cost::Machine& machine,
                     ProblemOptions options = {});

inline Strategy on_devices(const std::vector<int>& devices) {
    return whole_ops(devices, {});
}

}  // namespace partita::plan
