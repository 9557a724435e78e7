// SPDX-License-Identifier: Apache-2.0
//
// The graph that is planned: the model's, and in training what its loss adds. A cross-entropy needs of all classes of a
// row one number, z = log sum exp(y): its loss is z - y[target], its gradient exp(y - z) - one_hot(target). So each
// output that it is taken of gets an op more:
//
//     y [.. classes] --> ReduceLogSumExp --> z [.. 1] --> Output (loss)
//          \------------------------------------------------^
//
// Devices that have some classes each find their part of z, combine it (graph::Combine::log_sum_exp), and need nothing
// else of each other: what Megatron-LM calls vocabulary-parallel cross-entropy. z is float32 at least.
//
// Source: Shoeybi et al., Megatron-LM, 2019, section 3 (cross-entropy fused with the parallel output product).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "plan/problem/problem_options.h"

namespace partita::plan {

struct LossGraph {
    graph::OpGraph graph;          ///< tensors of the model have the ids that they had
    std::vector<graph::OpId> ops;  ///< by op of the model: where it is now
};

/// nullopt: the loss adds nothing. Throws UsageError as gradient_paths() does.
std::optional<LossGraph> graph_with_loss(const graph::OpGraph& model, Mode mode,
                                         const Policy& policy);

/// Is an op of this name and type what a loss adds to the graph, which has it or not?
bool is_added_by_loss(const graph::OpGraph& graph, std::string_view name, std::string_view type);

/// What is said of ops of the model, of those of the graph. What a loss adds may use the devices of its output.
Constraints constraints_with_loss(const graph::OpGraph& model, const LossGraph& loss,
                                  Constraints constraints);

}  // namespace partita::plan
