// SPDX-License-Identifier: Apache-2.0
//
// One lowering, private to plan/lowering; everyone else calls lower(). It walks the iteration's
// script, and puts between the parts of ops what the tensors around them need at that point
// (TensorTasks).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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
    TaskGraph run();

private:
    /// Tasks from `begin` to `end`.
    struct TaskRange {
        std::size_t begin = 0;
        std::size_t end = 0;
    };

    /// A tensor in one micro-batch, as far as it is lowered.
    struct Tensor {
        const TensorEvents* events = nullptr;
        const TensorTasks* tasks = nullptr;
        TaskRange latest;               ///< tasks of the event before
        std::vector<TaskId> ids;        ///< of its tasks
        std::vector<BufferId> buffers;  ///< ids of its buffers
    };

    /// What an event left for the parts of an op.
    struct Found {
        const Tensor* tensor = nullptr;
        const TensorStep* step = nullptr;
        std::size_t first_buffer = 0;  ///< of those that the event made
    };

    /// What is fetched at once: for a forward, or a backward, the parameters of a bucket whose
    /// readers are on the same devices; or what one block of parts reads.
    struct FetchUnit {
        std::int32_t bucket = -1;
        std::int32_t device = -1;  ///< of a bucket: the first that reads
        bool backward = false;     ///< the same, as micro_batch
        std::int32_t micro_batch = 0;
        PartBlock block;  ///< -1 as bucket: reads
        friend auto operator<=>(const FetchUnit&, const FetchUnit&) = default;
    };

    /// Where collectives meet that may be fused: around a block, or in a bucket.
    struct FusionPoint {
        std::int32_t depth = -1;  ///< bucket_depth(); -1: around the unit's block
        FetchUnit unit;           ///< of gradients and new values without device and pass
        friend auto operator<=>(const FusionPoint&, const FusionPoint&) = default;
    };

    /// One use of a parameter that is fetched anew for each.
    struct Fetch {
        graph::TensorId tensor;
        TaskRange tasks;
        PartBlock block;     ///< the parts that use it
        TaskRange gradient;  ///< what takes the gradient that they give to its place
    };

    /// When a block runs, as far as that can be compared: its schedule key and, among those of one
    /// key, the id of its first task.
    using Moment = std::pair<std::int32_t, std::size_t>;

    /// A part that uses what a unit fetches.
    struct UnitReader {
        int device = -1;
        Moment moment;
        TaskId task;
        friend auto operator<=>(const UnitReader&, const UnitReader&) = default;
    };

    struct UnitFetches {
        std::vector<std::size_t> fetches;  ///< numbers in fetches_
        std::vector<UnitReader> readers;   ///< rising
        Moment begin;                      ///< of the first of these
        /// When all gradients of these parameters can be on their way; nullopt: that cannot be told.
        std::optional<Moment> gradients;
    };

    using ByDevice = std::vector<std::pair<int, TaskId>>;  ///< rising

    // lower.cpp
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
    [[nodiscard]] FusionPoint fusion_point(const Tensor& tensor, std::size_t task) const;
    void fuse_collectives();

    // fetch_limits.cpp: parameters that are fetched for each use
    void note_fetch(graph::TensorId t, TaskRange tasks);
    void note_readers(const PartBlock& block);
    void note_gradient(graph::TensorId t, TaskRange tasks);
    [[nodiscard]] FetchUnit unit_of(graph::TensorId t, const PartBlock& readers) const;
    [[nodiscard]] Moment moment_of(const PartBlock& block) const;
    [[nodiscard]] std::vector<UnitFetches> fetch_units() const;
    void add_readers(const PartBlock& block, UnitFetches& unit) const;
    [[nodiscard]] std::optional<Moment> gradients_of(const FetchUnit& unit) const;
    [[nodiscard]] ByDevice by_device(TaskRange range) const;
    [[nodiscard]] static std::vector<TaskId> last_before(const UnitFetches& unit, int device,
                                                         Moment moment);
    void limit_fetches();

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const Strategy& strategy_;
    const PlannedCollectives* planned_;
    MicroBatchRows rows_;
    BlockOrder block_order_;
    StrategyTensors layouts_;
    TaskGraphBuilder build_;
    std::vector<Tensor> tensors_;      ///< by row
    std::vector<TaskId> first_parts_;  ///< by MicroBatchRows::row of their block
    std::vector<Fetch> fetches_;       ///< in order of lowering
    std::size_t fetches_read_ = 0;     ///< those whose readers are known
};

}  // namespace partita::plan
