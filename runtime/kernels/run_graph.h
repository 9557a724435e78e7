// SPDX-License-Identifier: Apache-2.0
//
// A whole graph on one device, op after op and no op in parts: bodies of control flow, and the
// reference that executions of plans are compared with.
#pragma once

#include <span>

#include <ATen/core/Tensor.h>

#include "graph/op_graph.h"
#include "graph/operators/part.h"
#include "runtime/kernels/kernel.h"
#include "runtime/kernels/part_kernel.h"

namespace partita::runtime {

/// `inputs` in order of the Input ops; results in order of the Output ops. Values are dropped after
/// their last use. Every op must have a kernel. An exception of a kernel gets the op's name in
/// front. Autograd can differentiate the results where the caller's grad mode is on. `device`:
/// where inputs and results lie; what is only read on the host (is_read_on_host()) may lie on the
/// CPU.
Tensors run_graph(const graph::OpGraph& graph, std::span<const at::Tensor> inputs,
                  const SourceValue& source, at::Device device = at::kCPU);

/// One op of it, whole: its inputs to its results, with the op's name in front of what is thrown.
Tensors run_op(const graph::OpGraph& graph, graph::OpId id, std::span<const at::Tensor> inputs,
               const SourceValue& source, at::Device device = at::kCPU);

/// The region of a whole tensor, packed.
at::Tensor taken(at::Tensor tensor, const graph::Region& region);

/// Of the inputs of an op, what its whole part reads: of Slice that is less than all.
Tensors read_by(const PartKernel& kernel, std::span<const at::Tensor> inputs);

}  // namespace partita::runtime
