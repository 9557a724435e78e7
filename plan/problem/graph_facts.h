// SPDX-License-Identifier: Apache-2.0
//
// GraphFacts: what an iteration does with a graph, on whatever devices. It follows from the rules
// of the ops, the mode, the loss, the optimizer and the dims that carry the batch:
//
//     gradients    which tensors have one, and which ops a backward task
//     batch        where it lies in factors of ops, and what differs between micro-batches
//     recompute    what may run again for the backward
//     work         FLOPs and bytes of each phase; bytes that stay for the whole iteration
#pragma once

#include <cstddef>
#include <vector>

#include "base/units.h"
#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/soap.h"
#include "plan/problem/gradient_buckets.h"
#include "plan/problem/op_costs.h"
#include "plan/problem/problem_options.h"
#include "plan/problem/recompute_regions.h"
#include "plan/strategy/pass.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

class GraphFacts {
public:
    /// `rules` are rules_of(graph). The graph must outlive the facts. Throws UsageError when the
    /// mode is training and nothing can be trained (gradient_paths()).
    GraphFacts(const graph::OpGraph& graph, std::vector<graph::OpRule> rules,
               const ProblemOptions& options);
    GraphFacts(const GraphFacts&) = delete;  // works() refers to members
    GraphFacts& operator=(const GraphFacts&) = delete;

    [[nodiscard]] const graph::OpGraph& graph() const { return graph_; }
    [[nodiscard]] const graph::OpRule& rule(graph::OpId op) const { return rules_[op.index()]; }

    /// Does the op run anything? Sources and outputs do not; a loss runs in an output's backward.
    [[nodiscard]] bool has_forward(graph::OpId op) const;
    [[nodiscard]] bool has_backward(graph::OpId op) const { return backward_[op.index()] != 0; }
    /// Training: a gradient of this tensor is computed.
    [[nodiscard]] bool has_gradient(graph::TensorId t) const { return gradient_[t.index()] != 0; }
    /// Is it computed, by each micro-batch anew?
    [[nodiscard]] bool is_activation(graph::TensorId t) const {
        return is_batched(t) && graph_.op(graph_.tensor(t).producer).kind == graph::OpKind::compute;
    }
    /// Never changes between iterations: loaded once wherever it is used, never copied by a task.
    /// Constants, frozen parameters, and in inference all parameters.
    [[nodiscard]] bool is_resident(graph::TensorId t) const { return resident_[t.index()] != 0; }

    /// Empty unless it is training and the policy recomputes.
    [[nodiscard]] const RecomputeRegions& recompute() const { return recompute_; }
    /// Does the op find the gradients of weights (what is the same in all micro-batches) in a pass
    /// of its own? Matrix products do, where the policy's schedule asks for it (pipeline_schedule.h).
    [[nodiscard]] bool splits_backward(graph::OpId op) const {
        return splits_backward() && split_[op.index()] != 0;
    }
    [[nodiscard]] bool splits_backward() const { return !split_.empty(); }
    /// Per operand: does the op find its gradient in this pass, backward or weights?
    [[nodiscard]] std::vector<char> wanted(graph::OpId op, Pass pass) const;
    /// Must the operand be kept until that pass has run?
    [[nodiscard]] bool saves_operand(graph::OpId op, std::size_t operand, Pass pass) const;
    /// Which passes ops have, and how these are numbered. `ops`: rows of ops.
    [[nodiscard]] PassRows passes(std::size_t ops) const {
        return {ops, recompute_.any(), splits_backward()};
    }
    /// None unless it is training and the policy has some.
    [[nodiscard]] const GradientBuckets& buckets() const { return buckets_; }

    /// What the tasks of an op do: what is measured where they are to be priced.
    [[nodiscard]] const OpWorks& works() const { return works_; }

    /// Where the batch and the parameters lie in tensors: what classes of factors follow from.
    [[nodiscard]] const std::vector<graph::TensorOrigin>& origins() const { return origins_; }
    /// Per factor of an op the part of the batch in it.
    [[nodiscard]] const std::vector<graph::BatchDigit>& batch_digits(graph::OpId op) const {
        return batch_digits_[op.index()];
    }
    /// Does the tensor differ between micro-batches?
    [[nodiscard]] bool is_batched(graph::TensorId t) const { return batched_[t.index()] != 0; }
    /// Does the op run once per micro-batch?
    [[nodiscard]] bool is_batched(graph::OpId op) const { return batched_ops_[op.index()] != 0; }

    /// Bytes that stay on the device of the op for the whole iteration: a parameter with its
    /// gradient, accumulator and optimizer state, a constant, or the memory given by a workload.
    [[nodiscard]] Bytes persistent_bytes(graph::OpId op) const;
    /// Of one more copy of a resident tensor on another device.
    [[nodiscard]] Bytes tensor_bytes(graph::TensorId t) const;
    /// Bytes that a reader needs of a resident operand, at least.
    [[nodiscard]] Bytes read_bytes(graph::Use use) const;

private:
    void find_resident_tensors(const ProblemOptions& options);
    void find_batch();
    void find_gradients(const Policy& policy);
    void find_split_backwards();

    const graph::OpGraph& graph_;
    std::vector<graph::OpRule> rules_;
    std::vector<graph::TensorOrigin> origins_;  ///< per tensor
    Optimizer optimizer_;
    std::vector<std::vector<graph::BatchDigit>> batch_digits_;  ///< per op and factor
    std::vector<char> batched_;                                 ///< per tensor
    std::vector<char> batched_ops_;                             ///< per op
    std::vector<char> resident_;                                ///< per tensor
    std::vector<char> gradient_;                                ///< per tensor
    std::vector<char> backward_;                                ///< per op
    std::vector<char> split_;                                   ///< the same; empty: none
    RecomputeRegions recompute_;
    GradientBuckets buckets_;
    OpWorks works_;
};

}  // namespace partita::plan
