// SPDX-License-Identifier: Apache-2.0
//
// One lowering, private to plan/lowering; everyone else calls lower(). It walks the iteration's
// script, and puts between the parts of ops what the tensors around them need at that point
// (TensorTasks).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/folding/folding.h"
#include "plan/lowering/block_order.h"
#include "plan/lowering/task_graph_builder.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/strategy_tensors.h"

namespace partita::plan {

class PlannedCollectives;

class Lowering {
public:
    /// `planned`: what a plan says of collectives; null: prices do.
    Lowering(const Problem& problem, const Strategy& strategy, LoweringCache& cache,
             const PlannedCollectives* planned = nullptr);
    /// Of devices that do the same, if any do, one is lowered for all, from here on.
    void fold(const LoweringCache& cache);
    [[nodiscard]] bool is_folded() const { return folding_.has_value(); }
    TaskGraph run();

private:
    /// A tensor in one micro-batch, as far as it is lowered.
    struct Tensor {
        const TensorEvents* events = nullptr;
        const TensorTasks* tasks = nullptr;
        std::vector<TaskId> ids;        ///< of its tasks
        std::vector<BufferId> buffers;  ///< ids of its buffers
    };

    /// What an event left for the parts of an op.
    struct Found {
        const Tensor* tensor = nullptr;
        const TensorStep* step = nullptr;
        std::size_t first_buffer = 0;  ///< of those that the event made
    };

    void lower(const ScriptStep& step);
    std::vector<TaskId> add_parts(const PartBlock& block, const std::vector<Found>& found);
    void connect(TaskId task, std::size_t part, const Found& found);
    void make_views(const Found& viewed, const Found& result);
    Found lower(EventId event);
    void add_local_task(Tensor& tensor, std::size_t index, const TensorEvent& event);
    void add_local_buffer(Tensor& tensor, std::size_t index);
    [[nodiscard]] std::int32_t schedule_key_of(const Tensor& tensor, std::size_t index) const;
    [[nodiscard]] TaskId resolved(const Tensor& tensor, TaskRef ref) const;
    [[nodiscard]] TaskId task_of(const PartBlock& block, int part) const;
    void fuse_collectives();
    void limit_communication();
    void clip_gradients();

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const Strategy& strategy_;
    const PlannedCollectives* planned_;
    MicroBatchRows rows_;
    BlockOrder block_order_;
    StrategyTensors layouts_;
    std::optional<Folding> folding_;
    TaskGraphBuilder build_;
    std::vector<Tensor> tensors_;      ///< by row
    std::vector<TaskId> first_parts_;  ///< by MicroBatchRows::row of their block
};

}  // namespace partita::plan
