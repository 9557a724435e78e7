// SPDX-License-Identifier: Apache-2.0
//
// When gradients are reduced that go in one bucket (kOneBucket): engines that do so reduce them after the
// backward of their devices, and after all that this owes to other stages.
//
//     stage 1   backward of the last micro-batch ┬─▶ gradient of activations to stage 0
//                                                └─────────────▶ reduction of gradients
//
// The gradients of weights are there a little before that of the first activation. Without a limit the
// reduction would take the sender first, for hundreds of milliseconds, and stage 0 would wait for it,
// and so on from stage to stage. Nothing that leaves a device waits for a reduction, but what is fetched
// anew for a use (fetch_limits.h): where there is any, there are no such limits. Of what becomes one
// reduction (fused_collectives.h) the first tensor's waits, so there are few of them.
//
// Source: megatron/core/distributed/finalize_model_grads.py, which the schedules call last.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "plan/lowering/fused_collectives.h"
#include "plan/lowering/fusion_unit.h"
#include "plan/lowering/row_edge.h"
#include "plan/problem/problem.h"
#include "plan/tensors/strategy_tensors.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

class ReductionLimits {
public:
    /// Both must outlive it.
    ReductionLimits(const Problem& problem, const StrategyTensors& layouts);

    /// Are there any, whatever the strategy?
    [[nodiscard]] bool any() const { return !parameters_.empty(); }
    /// By the layouts as they are; in any order, maybe several times.
    [[nodiscard]] std::vector<RowEdge> find(const TasksOfRow& tasks_of) const;

private:
    /// What leaves each device in a micro-batch, of gradients of activations.
    struct Sent {
        std::size_t row = 0;
        TaskRef task = -1;
    };
    [[nodiscard]] std::vector<std::vector<Sent>> sent_in(int micro_batch,
                                                         const TasksOfRow& tasks_of) const;
    /// What equal ones of different tensors become one reduction by.
    struct Reduction {
        FusionUnit unit;
        std::int32_t depth = 0;
        FusionSignature signature;
        friend auto operator<=>(const Reduction&, const Reduction&) = default;
    };
    [[nodiscard]] Reduction reduction_of(std::size_t row, const TensorTasks& tasks,
                                         std::uint32_t task) const;

    const Problem& problem_;
    const StrategyTensors& layouts_;
    int device_count_;
    int micro_batches_;
    std::vector<std::size_t> parameters_;       ///< rows; none: no limits
    std::vector<graph::TensorId> activations_;  ///< that have gradients
};

}  // namespace partita::plan
