// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a strategy that changes a little at a time, in slots: what lower() would give anew.
//
//     op Y changes its config
//       its parts             are others, or run again or no more (OpDecision::recompute)
//       tensors around it     lie and are needed elsewhere: their tasks are looked up (TensorTasks)
//       ops around these      wait for other tasks
//       fusions around these  are found again; they may concern one tensor more
//
// Everything else keeps its slots, so that an incremental timeline can follow the change. Keys
// order tasks as Scheduler::rank does (slot_keys.h).
//
// In a schedule a change may also move stages: parts whose schedule key differs are changed parts.
// What schedule keys and control edges of the tasks around follow is found from slot to slot
// (block_order.h).
//
// Not covered: what is no pipeline for its schedule.
//
// Cost: proportional to the tasks around the changed ops; in a schedule also O(ops) where an op
// goes to other devices; and O(parts that read) of parameters that are fetched again for each use,
// whose limits run through the whole graph (fetch_limits.h), and O(updates) where gradients are
// clipped and one of them is touched.
// Threads: one object per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/incremental/block_order.h"
#include "plan/incremental/slot_graph.h"
#include "plan/incremental/slot_keys.h"
#include "plan/incremental/slot_list.h"
#include "plan/lowering/block_order.h"
#include "plan/lowering/fetch_limits.h"
#include "plan/lowering/fused_collectives.h"
#include "plan/lowering/gradient_clipping.h"
#include "plan/lowering/reduction_limits.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/strategy_tensors.h"

namespace partita::plan {

struct OpChange {
    graph::OpId op;
    OpDecision decision;
};

/// What differs from the strategy before. What comes out must be legal.
struct StrategyChange {
    std::span<const OpChange> ops;   ///< each once
    const Policy* policy = nullptr;  ///< null: as it is
};

void apply(Strategy& strategy, const StrategyChange& change);

/// Can strategies be lowered a change at a time, from this one on?
bool is_incremental(const Problem& problem, const Strategy& strategy);

/// Where collectives of buckets may be fused.
std::size_t bucket_places(const Problem& problem, const Policy& policy);

/// Do the parts of the event's block wait for, or read, what it finds?
constexpr bool is_for_parts(const TensorEvent& event) {
    return event.block >= 0 && event.kind != TensorEvent::Kind::produce &&
           event.kind != TensorEvent::Kind::reproduce &&
           event.kind != TensorEvent::Kind::contribute;
}

/// What lies beyond is evaluated as a whole. Tests take less.
struct IncrementalLimits {
    std::int64_t work = kMostWork;  ///< of all tasks together, picoseconds
    /// Of a tensor in one event, if keys (SlotKeys::most_tasks(), at least 65,536) can tell as many
    /// apart.
    std::size_t messages = std::numeric_limits<std::size_t>::max();
};

class IncrementalLowering {
public:
    /// The cache must outlive it and not forget while it is used. `strategy` must be legal and
    /// is_incremental(). All its slots are a pending change of nothing.
    IncrementalLowering(const Problem& problem, const Strategy& strategy, LoweringCache& cache,
                        const IncrementalLimits& limits = {});

    /// Takes up a change, pending until accept() or reject(). Steps, each dearer than the one
    /// before; the first two only count loads. What does not keep its schedule must be rejected
    /// then.
    void begin(const StrategyChange& change);
    void look_up();
    [[nodiscard]] bool keeps_schedule();
    /// The tasks of all slots that may have another one or none by the pending change, each slot
    /// once. Call once per change, and only where it has_room(). Valid until the next begin().
    std::span<const SlotTask> slots();
    void accept();
    void reject();

    /// Is the strategy with the pending change, as far as it is looked up, within the limits?
    [[nodiscard]] bool has_room() const { return work_ < limits_.work && pending_.has_keys; }

    /// Per resource: for how long it is occupied at least. After begin() without the tasks of
    /// tensors around changed ops, after look_up() with them, but never with what may be fused.
    [[nodiscard]] std::span<const std::int64_t> least_loads() const { return least_loads_; }
    /// Per device: an upper bound of the bytes that it ever holds; after look_up() with the change.
    [[nodiscard]] std::span<const Bytes> most_bytes() const { return most_bytes_; }
    [[nodiscard]] const SlotKeys& keys() const { return keys_; }

    // After slots() with the pending change; by row of layouts().
    [[nodiscard]] const StrategyTensors& layouts() const { return layouts_; }
    /// Null: the tensor has none.
    [[nodiscard]] const TensorTasks* tasks_of(std::size_t row) const { return tensors_[row].tasks; }
    /// Where these tasks are.
    [[nodiscard]] std::span<const Slot> slots_of(std::size_t row) const {
        return tensors_[row].targets;
    }
    /// Where a task is that these refer to; a part never moves.
    [[nodiscard]] Slot slot_of(std::size_t row, TaskRef ref) const { return resolved(row, ref); }

private:
    /// A tensor in one micro-batch.
    struct Tensor {
        const TensorTasks* tasks = nullptr;
        std::vector<Slot> own;      ///< a slot per task
        std::vector<Slot> targets;  ///< where its tasks are: elsewhere, if they move with others
    };
    /// A task that may be fused.
    struct Member {
        std::size_t row = 0;
        std::size_t task = 0;
    };
    /// A fused collective around a block of parts, or of a bucket.
    struct Fused {
        Slot slot = -1;  ///< of its first member
        std::int32_t resource_set = -1;
        std::int64_t duration = 0;
        std::vector<Member> members;
    };
    /// What fetches a parameter, or reduces gradients in one bucket, waits for a slot.
    struct CommunicationWait {
        std::size_t row = 0;
        std::size_t task = 0;
        Slot before = -1;
        friend auto operator<=>(const CommunicationWait&, const CommunicationWait&) = default;
    };
    /// Numbers, each once.
    struct Marked {
        std::vector<std::size_t> list;
        std::vector<char> has;
        explicit Marked(std::size_t size) : has(size, 0) {}
        bool add(std::size_t i) {
            if (has[i] != 0) return false;
            has[i] = 1;
            list.push_back(i);
            return true;
        }
        void clear() {
            for (const std::size_t i : list) has[i] = 0;
            list.clear();
        }
    };
    /// What the change that is neither accepted nor rejected is about, and what it has replaced.
    struct PendingChange {
        Marked rows_near;                           ///< tensors around changed ops
        std::vector<const TensorTasks*> looked_up;  ///< their tasks; null: it has none
        bool has_keys = true;                       ///< for all messages of these
        Marked renewed;                             ///< rows whose tasks are others
        Marked touched;                      ///< rows whose tasks, or their slots, may differ
        std::vector<Tensor> touched_before;  ///< of these
        Marked blocks;                       ///< whose parts may differ
        Marked fusion_places;                ///< where fusions may differ
        std::vector<std::pair<std::size_t, std::vector<Fused>>> fused_before;  ///< by place
        std::optional<std::vector<CommunicationWait>> waits_before;  ///< nullopt: the same
        std::vector<std::int64_t> least_loads_before;
        std::vector<Bytes> most_bytes_before;
        Int128 work_before = 0;
        bool stages_differ = false;            ///< maybe: an op of a stage has other devices
        std::optional<BlockOrder> next_order;  ///< nullopt: as before

        PendingChange(std::size_t row_count, std::size_t block_count, std::size_t place_count);
        void clear();
    };

    // lowering.cpp
    void number_events();
    void touch_all();
    void add_parts(graph::OpId op, std::int64_t sign);
    void add_load(std::size_t resource, std::int64_t load);
    void add_tensor(const TensorTasks& tasks, std::int64_t sign);
    void change_op(graph::OpId op);
    void renew(std::size_t row, const TensorTasks& tasks);
    Tensor& touch(std::size_t row);
    void free_further(const Tensor& left, const Tensor& kept);

    // lowering_fusion.cpp
    void touch_fused(std::size_t row, const TensorTasks& tasks);
    [[nodiscard]] std::size_t fusion_place(std::size_t row, const TensorTasks& tasks,
                                           std::size_t task) const;
    [[nodiscard]] std::vector<std::size_t> rows_around(std::size_t place) const;
    void find_fused_at(std::size_t place);
    void put_fused(std::size_t place, std::vector<Fused> all);
    void touch_first_members();
    [[nodiscard]] std::vector<Member> members_at(std::size_t place) const;
    void add_fused(std::span<const Member> members, FusionPlace place, std::vector<Fused>& all);
    [[nodiscard]] const Fused* fused_at(std::size_t row, std::size_t task) const;

    // lowering_waits.cpp
    void find_waits();
    [[nodiscard]] std::vector<CommunicationWait> waits_now() const;

    // lowering_clipping.cpp
    void emit_clip();

    // lowering_stages.cpp
    void find_moved_blocks();
    [[nodiscard]] bool is_scheduled() const { return policy_.schedule.kind != ScheduleKind::none; }
    /// With the pending change.
    [[nodiscard]] const BlockOrder& block_order() const {
        return pending_.next_order ? *pending_.next_order : block_order_;
    }

    // lowering_slots.cpp
    void emit_tensor(std::size_t row);
    void emit_task(std::size_t row, std::size_t task, std::uint64_t key);
    void emit_block(std::size_t block);
    void emit(const SlotTask& task, std::int32_t schedule_key) {
        list_.add(task);
        schedule_keys_.push_back(schedule_key);
    }
    void emit_empty(Slot slot) {
        emit({.slot = slot, .present = false, .predecessors = {}}, IncrementalBlockOrder::kNone);
    }
    void add_predecessors(std::size_t row, std::size_t task);
    [[nodiscard]] Slot resolved(std::size_t row, TaskRef ref) const;
    [[nodiscard]] std::uint64_t key_of_part(const PartBlock& block, int part) const;
    /// Of a task of that kind, or of a part of an op.
    [[nodiscard]] std::int32_t launch_of(TaskKind kind, std::int64_t duration) const;

    [[nodiscard]] const MicroBatchRows& rows() const { return layouts_.rows(); }
    [[nodiscard]] PartBlock block_at(std::size_t block) const { return rows().block(block); }
    [[nodiscard]] std::size_t block_row(const PartBlock& block) const { return rows().row(block); }
    [[nodiscard]] std::size_t block_row(std::size_t row, std::int32_t block) const {
        return block_row(layouts_.events()[row].blocks[static_cast<std::size_t>(block)]);
    }
    [[nodiscard]] Slot first_slot(std::size_t block) const {
        return static_cast<Slot>(block) * problem_.device_count();
    }
    /// Does the block run anything?
    [[nodiscard]] bool exists(const PartBlock& block) const;
    [[nodiscard]] int parts_of(std::size_t block) const;
    Slot new_slot();

    const Problem& problem_;
    const graph::OpGraph& graph_;
    Policy policy_;
    IncrementalLimits limits_;
    SlotKeys keys_;
    StrategyTensors layouts_;
    ResourceSets& resource_sets_;
    std::vector<Tensor> tensors_;  ///< by row
    std::vector<std::vector<std::uint64_t>>
        event_keys_;                           ///< by row, of events: key of the first task
    std::vector<std::vector<EventId>> finds_;  ///< by block: what its parts find
    /// By op: of tensors that are not around it, but whose tasks depend on its devices. Empty: there
    /// are none.
    std::vector<std::vector<std::size_t>> further_rows_;
    std::vector<int> parts_;                 ///< by block: so many have slots
    std::vector<std::vector<Fused>> fused_;  ///< by place: blocks, and those of buckets
    FetchLimits fetch_limits_;
    ReductionLimits reduction_limits_;
    std::vector<CommunicationWait> waits_;  ///< rising
    GradientClipping clipping_;
    Slot clip_slot_ = -1;  ///< of what clips gradients; -1: nothing does
    std::vector<Slot> free_;
    Slot slot_count_ = 0;
    std::vector<std::int64_t> least_loads_;
    std::vector<Bytes> most_bytes_;
    Int128 work_ = 0;  ///< all durations, those of tensors up to kMostWork each
    BlockOrder block_order_;
    IncrementalBlockOrder slot_order_;  ///< of nothing without a schedule

    PendingChange pending_;
    SlotList list_;  ///< what slots() gives, but for control edges
    std::vector<std::int32_t>
        schedule_keys_;  ///< of its tasks, as IncrementalBlockOrder takes them
};

}  // namespace partita::plan
