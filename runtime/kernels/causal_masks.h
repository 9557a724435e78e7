// SPDX-License-Identifier: Apache-2.0
//
// Masks of attention that hide from every query the keys behind it, and nothing else. Exporters write
// them as a tensor that constants and extents alone decide, the same in every iteration; kernels that
// are told so look at half of the scores, and read no mask.
//
// Looked at once, on the CPU, before anything runs: 64 ms for GPT-2, 8 x 1024 tokens.
// Threads: one. Errors: what kernels and `source` throw.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include <ATen/core/Tensor.h>

#include "graph/op_graph.h"
#include "graph/operators/part_op.h"
#include "runtime/kernels/kernel.h"

namespace partita::runtime {

/// The value of a constant of the graph, whole, on the CPU.
using ConstantValue = std::function<at::Tensor(graph::TensorId)>;

/// The value of a tensor that constants and extents alone decide, on the CPU; undefined: of another
/// one, of one that is drawn or comes out of a body, or where some tensor on the way has more than `most_elements`.
at::Tensor decided_value(const graph::OpGraph& graph, graph::TensorId tensor,
                         const ConstantValue& constant, std::int64_t most_elements);

/// [... s s]: true, or 0, for every key up to the query; false, or -10,000 or less, behind it.
bool is_causal(const at::Tensor& mask);

class CausalMasks {
public:
    /// The graph must outlive it, and what `constant` refers to.
    CausalMasks(const graph::OpGraph& graph, ConstantValue constant);

    /// Is causal masking all that the mask does in this part of ONNX's Attention? False for other ops.
    [[nodiscard]] bool decide(graph::OpId op, const graph::PartOp& part);

private:
    const graph::OpGraph& graph_;
    ConstantValue constant_;
    std::map<graph::TensorId, at::Tensor> masks_;  ///< those that were asked for
};

}  // namespace partita::runtime
