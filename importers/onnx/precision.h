// SPDX-License-Identifier: Apache-2.0
//
// Mixed precision over a model exported in float32, without exporting again (Micikevicius et al.,
// Mixed Precision Training, ICLR 2018): float32 tensors become float16 or bfloat16 ones, weights
// and activations alike. Masters and moments stay float32, as of every narrow parameter
// (plan/problem/op_costs.h, optimizer_state_bytes()).
//
// What an operator's schema knows in float32 alone (scales of Resize) stays so where nothing else
// reads it; a Cast to float32 becomes one to the narrow type.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/op_graph.h"
#include "graph/tensor.h"

namespace partita::importers {

struct Narrowed {
    graph::OpGraph graph;
    /// Gives what is narrow now in the narrow type: rounded to nearest, ties to even; what is
    /// finite stays finite (masks are often of the lowest float32).
    std::unique_ptr<graph::TensorSource> source;
    std::string note;  ///< for the summary
};

/// `to`: float16 or bfloat16. Throws UsageError naming `file` and op: one that computes in float32
/// alone, or has bodies that do.
Narrowed narrowed(graph::OpGraph graph, std::unique_ptr<graph::TensorSource> source,
                  graph::DType to, const std::string& file);

/// Gradients of 16-bit parameters are kept, added up and sent in float32, as Megatron-LM's
/// accumulate_allreduce_grads_in_fp32 has it.
void keep_gradients_in_float32(graph::OpGraph& graph);

}  // namespace partita::importers
