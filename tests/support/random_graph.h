// SPDX-License-Identifier: Apache-2.0
//
// Random graphs and machines for property tests: reproducible from a seed, acyclic by construction,
// of every shape between a chain and independent ops.
#pragma once

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "search/support/random.h"

namespace partita::support {

/// A workload of `nodes` nodes with given costs: times 0 to 99 us (ten times that on a CPU), copies
/// 0 to 19 us, memory 0 to 99 bytes. Each node reads up to three earlier ones, mostly recent ones.
graph::OpGraph random_workload(search::Random& random, int nodes);

/// A network of `layers` real ops (MatMul with a weight of its own or a shared one, Add, Relu,
/// Sigmoid, Softmax) on tensors [8 16] float32, with an input and an output for every loose end.
graph::OpGraph random_network(search::Random& random, int layers);

/// A chain of alternating MatMul and Relu with an input and an output: `ops` computing ops.
graph::OpGraph chain_network(int ops);

/// `devices` devices of up to three kinds, a CPU among them at times, on one switch with links of
/// different speed. Every device has `memory` bytes.
cost::Machine random_machine(search::Random& random, int devices, Bytes memory);

}  // namespace partita::support
