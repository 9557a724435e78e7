// SPDX-License-Identifier: Apache-2.0
//
// A part of an op, ready to run: its kernel, the part's attributes and integer operands, and what
// has to be done around the kernel: crop what the operator returns too much of, weigh the share of
// a mean, mask the rows that the part does not hold (graph/operators/part_op.h).
//
//     forward    regions of the operands ─▶ regions of the results
//     backward   gradients of the results ─▶ gradients of the operands, region by region
//
// The backward is the kernel's own where its row has one, and then reads what is saved; otherwise
// autograd differentiates the forward, which then leaves a Tape. Either way tensors are detached at
// the borders: no tape reaches into another task.
//
// Threads: const functions from any number of threads. Errors: what ATen throws.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/part_op.h"
#include "runtime/kernels/kernel.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

/// What a forward leaves for autograd's backward; empty when the kernel has its own.
struct Tape {
    Tensors operands;  ///< those with gradients are leaves
    Tensors results;   ///< as the forward gave them, with their history
};

class PartKernel {
public:
    /// The op must have a kernel: check_kernels(). `box` as part_op() wants it. `source` is asked
    /// only by ops with bodies. `device`: where all operands lie, but for those that the kernel
    /// reads on the host, which may lie anywhere and had better lie there (is_read_on_host()); and
    /// all results.
    PartKernel(const graph::OpGraph& graph, graph::OpId id, const graph::OpRule& rule,
               const graph::Box& box, at::Device device = at::kCPU, SourceValue source = {});

    [[nodiscard]] const graph::PartOp& op() const { return op_; }
    /// Of Attention whose mask only hides what comes later (causal_masks.h): its kernel then reads
    /// none.
    void attend_causally();
    /// Does a backward need the tape of its forward?
    [[nodiscard]] bool needs_tape() const { return row_->backward == nullptr || is_cropped_; }

    /// `operands`: as the op's inputs, of the extents of the part's regions; those that the part
    /// leaves out are not looked at. Results are contiguous, or views of an operand.
    [[nodiscard]] Tensors forward(std::span<const at::Tensor> operands) const;
    /// The same in the caller's grad mode: with history where that is on.
    [[nodiscard]] Tensors run(std::span<const at::Tensor> operands) const;
    /// The same, and leaves what backward() needs: `wanted` per operand.
    [[nodiscard]] Tensors forward(std::span<const at::Tensor> operands,
                                  std::span<const char> wanted, Tape& tape) const;

    /// What is saved of operands and results, and undefined tensors for the rest; undefined
    /// gradients are zero. A gradient for each operand that is wanted; undefined where it is zero
    /// everywhere. `keeps_tape`: for another backward, of other operands.
    [[nodiscard]] Tensors backward(const Tape& tape, std::span<const at::Tensor> operands,
                                   std::span<const at::Tensor> results,
                                   std::span<const at::Tensor> gradients,
                                   std::span<const char> wanted, bool keeps_tape = false) const;

private:
    [[nodiscard]] KernelCall call_of(std::span<const at::Tensor> operands) const;
    [[nodiscard]] Tensors taken(std::span<const at::Tensor> operands) const;
    [[nodiscard]] at::Tensor placed(const at::Tensor& given, std::size_t operand) const;
    [[nodiscard]] at::Tensor indices_of(const at::Tensor& indices) const;
    [[nodiscard]] at::Tensor masked(const at::Tensor& result, const at::Tensor& indices) const;
    [[nodiscard]] Tensors own_backward(std::span<const at::Tensor> operands,
                                       std::span<const at::Tensor> results,
                                       std::span<const at::Tensor> gradients,
                                       std::span<const char> wanted) const;

    const KernelRow* row_ = nullptr;
    graph::PartOp op_;
    const std::vector<graph::Body>* bodies_ = nullptr;
    at::Device device_;
    SourceValue source_;
    Tensors integers_;  ///< per operand the part's own value; undefined: of a region, or left out
    Tensors known_;  ///< on the CPU, its value where the graph has it: a backward need not save it
    std::vector<graph::Shape> shapes_;  ///< per operand
    bool is_cropped_ = false;           ///< the operator returns more than the part's results
};

}  // namespace partita::runtime
