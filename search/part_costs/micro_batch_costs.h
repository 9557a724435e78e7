// SPDX-License-Identifier: Apache-2.0
//
// The least that the tasks of an op take in plans of one number of micro-batches: what lower bounds
// count on, for every number of micro-batches by itself.
//
//     run   of one micro-batch, whole; parts of it take as much in sum      all   of all of them
//
// Cutting a batch makes work larger: every micro-batch reads the parameters again, and none of its
// tasks is shorter than a launch. A micro-batch handles the m-th share of the tensors that differ
// between micro-batches, or have their dim, and all of the others; where it is not known what a share costs (measured
// costs, a batch that m does not divide) it counts as the m-th share of what the whole costs at
// least.
//
// Sound: a price never falls when an op handles more, and sizes are rounded down here.
// Cost: a price for every op and class of devices.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"

namespace partita::search {

class MicroBatchCosts {
public:
    /// `problem` must outlive it; `micro_batches` >= 1, one that a plan may have.
    MicroBatchCosts(const plan::Problem& problem, int micro_batches);

    [[nodiscard]] int micro_batches() const { return micro_batches_; }
    /// Forward tasks, or backward tasks, that the op has in an iteration if it is not split.
    [[nodiscard]] std::int64_t runs(graph::OpId op) const {
        return problem_.facts().is_batched(op) ? micro_batches_ : 1;
    }
    /// A forward or a backward.
    struct PassCost {
        Time
            run;  ///< of one micro-batch, without what finds gradients of weights in a pass of its own
        Time all;  ///< of all of them, with it
    };
    [[nodiscard]] const PassCost& forward(graph::OpId op, int device) const {
        return of(op, device).forward;
    }
    [[nodiscard]] const PassCost& backward(graph::OpId op, int device) const {
        return of(op, device).backward;
    }
    /// All passes of all micro-batches: forward, backward, and the forward that runs again where
    /// the policy says so of every plan.
    [[nodiscard]] Time all_passes(graph::OpId op, int device) const {
        const Passes& passes = of(op, device);
        const std::int64_t forwards = runs_again_[op.index()] != 0 ? 2 : 1;
        return forwards * passes.forward.all + passes.backward.all;
    }
    /// What one micro-batch of the op handles, or less; nullopt: it is not known what that costs.
    [[nodiscard]] std::optional<plan::PartSize> share_of(graph::OpId op) const;
    /// How often one contribution to the whole gradient of `t` is added to others, wherever that
    /// happens.
    [[nodiscard]] std::int64_t additions(graph::TensorId t) const;

private:
    struct Passes {
        PassCost forward;
        PassCost backward;
    };
    [[nodiscard]] const Passes& of(graph::OpId op, int device) const {
        const auto classes = static_cast<std::size_t>(problem_.prices().device_class_count());
        return passes_[op.index() * classes +
                       static_cast<std::size_t>(problem_.prices().device_class(device))];
    }
    [[nodiscard]] Passes find(graph::OpId op, int device) const;
    [[nodiscard]] Time least_of_activations(graph::OpId op, int device) const;
    [[nodiscard]] PassCost pass(graph::OpId op, int device, Time whole, Time share) const;
    [[nodiscard]] bool knows_shares(graph::OpId op) const;
    [[nodiscard]] bool is_cut(graph::OpId op, std::size_t operand) const;

    const plan::Problem& problem_;
    int micro_batches_;
    bool even_ = true;  ///< do the micro-batches have equally many samples?
    std::vector<Passes> passes_;
    std::vector<char> runs_again_;  ///< per op
};

}  // namespace partita::search
