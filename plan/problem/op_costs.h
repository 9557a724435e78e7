// SPDX-License-Identifier: Apache-2.0
//
// What the phases of an op do, apart from where: the bridge from factor rules to cost models.
//
//     forward     FLOPs and bytes of the rule; a view (Reshape) moves nothing
//     backward    matrix products: one forward for the activation's gradient, one for the weight's,
//                 so two in general (REFERENCES 1); others: one forward per operand with a gradient.
//                 Bytes: gradients of the results, what was saved, and the operand gradients
//     accumulate  one addition: two reads, one write
//     pack        one read, one write
//     norm        one read
//     update      sgd 2, momentum 4, adam 12 FLOPs an element; reads and writes parameter and state
//
// A loss is the backward of its Output op: it reads the output and writes its gradient.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/cost_model.h"
#include "cost/work_signature.h"
#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"
#include "graph/operators/part_signature.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// Which tensors have gradients and which ops a backward, by two sweeps: a gradient exists where a
/// tensor depends on a parameter through floating-point values and reaches a loss.
struct GradientPaths {
    std::vector<char> gradient;  ///< per TensorId
    std::vector<char> backward;  ///< per OpId; for an Output op: it is a loss
};

/// Parameters that training leaves as they are (Policy::frozen), per TensorId. Throws UsageError
/// for a glob that matches none.
std::vector<char> frozen_parameters(const graph::OpGraph& graph, const Policy& policy);

/// Throws UsageError when no parameter reaches the loss, or the loss names no output.
GradientPaths gradient_paths(const graph::OpGraph& graph, const Policy& policy);

/// Bytes of optimizer state of one parameter: float32 moments, and a float32 master copy when the
/// parameter itself is narrower (mixed precision, as ZeRO counts it; REFERENCES 4).
Bytes optimizer_state_bytes(const graph::Tensor& parameter, std::int64_t elements,
                            Optimizer optimizer);

/// Of that many elements of a tensor; all of them are its own bytes, given ones included.
Bytes bytes_of(const graph::Tensor& tensor, std::int64_t elements);
/// Of that many elements of its gradient.
Bytes gradient_bytes_of(const graph::Tensor& tensor, std::int64_t elements);

/// Adding `elements` elements of one more contribution to a gradient of that tensor.
cost::Work accumulate_work(const graph::Tensor& tensor, std::int64_t elements);

/// Moving `elements` elements of a tensor, or of its gradient, to other places on their device.
cost::Work pack_work(const graph::Tensor& tensor, std::int64_t elements, bool gradient);

/// Squaring and adding up so many bytes of gradients.
cost::Work norm_work(Bytes gradients);

/// How much the largest part of an op handles: parts are priced by it (contract 11).
struct PartSize {
    std::vector<std::int64_t> operands;  ///< elements; 0 for one left out
    std::vector<std::int64_t> results;   ///< elements
    Flops flops;                         ///< forward
    /// Of that part, where costs depend on it (CostModel::uses_signatures); else empty.
    graph::PartSignature signature;
    int beside = 0;  ///< cores_beside() of the device that it is priced for
};
/// Of an op in so many parts: how many other cores work on it from the same memory. A core is
/// slower then; GPUs have memories of their own.
int cores_beside(const cost::Device& device, int parts);
PartSize whole_size(const graph::OpGraph& graph, graph::OpId id, const graph::OpRule& rule);
/// What parts read and give in sum, at least, however the op is cut: less than the whole where they
/// leave out what lies between their windows, as in a convolution whose stride is longer than its
/// kernel.
PartSize least_size(const graph::OpGraph& graph, graph::OpId id, const graph::OpRule& rule);
/// Is that less than the whole?
bool has_gaps(const graph::OpGraph& graph, graph::OpId id, const graph::OpRule& rule);
/// Of the part that covers the box, and its signature. Only for compute ops.
PartSize size_of_part(const graph::OpGraph& graph, graph::OpId id, const graph::OpRule& rule,
                      const graph::Box& box);

/// FLOPs of a part that covers the box, rounded up factor by factor.
Flops flops_of(const graph::OpRule& rule, const graph::Box& box);

class OpWorks {
public:
    /// Graph, rules and gradients must outlive the object, and may be completed after it is made.
    /// `gradient` is per TensorId. Of the policy only loss and optimizer count.
    OpWorks(const graph::OpGraph& graph, const std::vector<graph::OpRule>& rules,
            const std::vector<char>& gradient, const Policy& policy)
        : graph_(graph),
          rules_(rules),
          gradient_(gradient),
          loss_(policy.loss),
          optimizer_(policy.optimizer) {}

    [[nodiscard]] cost::Work forward(graph::OpId id, const PartSize& size) const;
    [[nodiscard]] cost::Work backward(graph::OpId id, const PartSize& size) const;
    /// Of a backward that finds these gradients alone; `wanted`: per operand.
    [[nodiscard]] cost::Work backward(graph::OpId id, const PartSize& size,
                                      std::span<const char> wanted) const;
    /// By what a measured forward or backward is found; the size must have its signature.
    [[nodiscard]] cost::WorkSignature forward_signature(graph::OpId id, const PartSize& size) const;
    [[nodiscard]] static cost::WorkSignature backward_signature(const PartSize& size,
                                                                std::span<const char> wanted);
    [[nodiscard]] bool is_updated(graph::OpId id) const;
    /// Of that many elements of the parameter.
    [[nodiscard]] cost::Work update(graph::OpId id, std::int64_t elements) const;

    // of the whole op
    [[nodiscard]] cost::Work forward(graph::OpId id) const;
    [[nodiscard]] cost::Work backward(graph::OpId id) const;
    [[nodiscard]] cost::Work update(graph::OpId id) const;

private:
    [[nodiscard]] cost::Work base(graph::OpId id) const;
    /// Per operand: is its gradient asked for?
    [[nodiscard]] std::vector<char> wanted(graph::OpId id) const;
    [[nodiscard]] cost::Work loss(const graph::Op& op, std::int64_t elements) const;
    /// Result bytes of the part in proportion to those of the op: what priced_by_result scales by.
    [[nodiscard]] Bytes moved(const graph::Op& op, Bytes whole, const PartSize& size) const;

    const graph::OpGraph& graph_;
    const std::vector<graph::OpRule>& rules_;
    const std::vector<char>& gradient_;
    LossKind loss_;
    Optimizer optimizer_;
};

}  // namespace partita::plan
