// SPDX-License-Identifier: Apache-2.0
//
// A model in another precision than it was exported in, without exporting again: its float32,
// float16 and bfloat16 tensors become those of one of these types, weights and activations alike.
// In 16 bits that is mixed precision (Micikevicius et al., Mixed Precision Training, ICLR 2018):
// masters and moments stay float32, as of every narrow parameter (plan/problem/op_costs.h,
// optimizer_state_bytes()).
//
// What an operator's schema knows in float32 alone (scales of Resize) stays so where nothing else
// reads it; a Cast to one of the three types becomes one to the type asked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/op_graph.h"
#include "graph/tensor.h"

namespace partita::importers {

struct Converted {
    graph::OpGraph graph;
    /// Gives what has another type now in that: rounded to nearest, ties to even; what is finite
    /// stays finite (masks are often of the lowest float32).
    std::unique_ptr<graph::TensorSource> source;
    std::string note;  ///< for the summary; "" where all is in that type already
};

/// `to`: float32, float16 or bfloat16. Throws UsageError naming `file` and op: one that computes in
/// float32 alone, or has bodies that compute in another type.
Converted converted(graph::OpGraph graph, std::unique_ptr<graph::TensorSource> source,
                    graph::DType to, const std::string& file);

/// Gradients of 16-bit parameters are kept, added up and sent in float32, as Megatron-LM's
/// accumulate_allreduce_grads_in_fp32 has it.
void keep_gradients_in_float32(graph::OpGraph& graph);

}  // namespace partita::importers
