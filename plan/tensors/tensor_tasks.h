// SPDX-License-Identifier: Apache-2.0
//
// The tasks that move, add up and update one tensor (one micro-batch of it), as a pure function of
// the layouts in which it lies and is needed. Lowering puts the tasks of all tensors and the parts
// of all ops together; while the ops around a tensor keep their configs its tasks need not be found
// again.
//
// Tensors that are alike (TensorEvents::alike) share their tasks, so these do not say whose they
// are. Tasks stand for others by reference:
//
//     >= 0    task of that number, here
//     -1      none: there from the start
//     <= -2   part of an op: a block of TensorEvents and the number of the part
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "plan/problem/micro_batches.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

using TaskRef = std::int32_t;

constexpr TaskRef part_ref(int block, int part) {
    return -2 - (block * kMostParts + part);
}
constexpr bool is_part(TaskRef ref) {
    return ref <= -2;
}
constexpr int block_of(TaskRef ref) {
    return (-2 - ref) / kMostParts;
}
constexpr int part_of(TaskRef ref) {
    return (-2 - ref) % kMostParts;
}

/// What a part finds somewhere.
struct Source {
    TaskRef task = -1;
    std::int32_t buffer = -1;
};

/// A buffer, without tensor.
struct TensorBuffer : BufferValue {
    TaskRef writer = -1;
    std::int32_t root = -1;  ///< number of the buffer whose memory it uses
};

/// What an event adds.
struct TensorStep {
    std::uint32_t tasks = 0;    ///< end: those of events before, and of this one
    std::uint32_t buffers = 0;  ///< the same
    bool fetched = false;       ///< its tasks fetch the tensor for this use alone
    bool waits = false;         ///< parts come after what they find
    std::uint32_t sources = 0;  ///< first row of TensorTasks::sources
    std::uint32_t parts = 0;    ///< so many rows there
};

// Of TensorTasks::fusion_blocks: what is no block. The depth of a collective in a bucket is the number
// of those of its tensor that it waits for, of gradients or of new values, or of what fetches it for
// the same use. Only equally deep ones go together, so that no bucket comes to wait for itself:
// gradients may be summed over some devices and then over others.
inline constexpr std::int32_t kNoFusion = -1;
inline constexpr std::int32_t kBucketDepths = 4;  ///< what is deeper goes alone
inline bool in_bucket(std::int32_t fusion_block) {
    return fusion_block < kNoFusion;
}
inline std::int32_t bucket_depth(std::int32_t fusion_block) {
    return (kNoFusion - 1 - fusion_block) % kBucketDepths;
}
/// Does it fetch the parameter for one use?
inline bool is_bucket_fetch(std::int32_t fusion_block) {
    return fusion_block < kNoFusion - kBucketDepths;
}
inline std::int32_t at_bucket_depth(std::int32_t depth, bool fetch = false) {
    if (depth >= kBucketDepths) return kNoFusion;
    return kNoFusion - 1 - depth - (fetch ? kBucketDepths : 0);
}

struct TensorTasks {
    /// Without op, tensor, priority and schedule key; resource sets are those of LoweringCache,
    /// Task::ranks is a row of `groups`.
    std::vector<Task> tasks;
    Csr<TaskRef> predecessors;  ///< rising, distinct
    Csr<std::int32_t> reads;    ///< numbers of buffers
    /// It belongs to the same block of a schedule as what it waits for, if that is of one.
    std::vector<char> in_block;
    /// Of a collective: all parts of this block wait for it or, if it moves a gradient, it waits
    /// for them and for nothing else; then it may be fused (fused_collectives.h). kNoFusion: no
    /// such block; otherwise negative: it moves with its bucket (bucket_depth()).
    std::vector<std::int32_t> fusion_blocks;
    std::vector<std::uint32_t> fusible;    ///< those that may be fused
    std::vector<std::vector<int>> groups;  ///< devices in order of rank
    std::vector<TensorBuffer> buffers;
    std::vector<TensorStep> steps;  ///< per event
    /// Per event and part that finds any of the tensor or of its gradient: what it finds.
    Csr<Source> sources;
    std::vector<PersistentBytes> persistent;
    std::size_t most_tasks = 0;  ///< of one event
    bool fetches = false;        ///< some of the steps are TensorStep::fetched
    /// All durations; where they reach kMostWork, that, and `loads` are empty: nothing is known of
    /// them.
    std::int64_t work = 0;
    /// Per resource that they occupy: for how long in all, without what may be fused.
    std::vector<std::pair<std::int32_t, std::int64_t>> loads;
    /// Per device that holds any: all buffers and what is persistent, as if nothing were ever
    /// freed.
    std::vector<std::pair<int, Bytes>> most_bytes;
};

/// Of a row of events (StrategyTensors::events); null: it has none.
using TasksOfRow = std::function<const TensorTasks*(std::size_t row)>;

/// What a part finds by an event.
inline std::span<const Source> sources_of(const TensorTasks& tasks, const TensorStep& step,
                                          std::size_t part) {
    return tasks.sources[step.sources + part];
}

/// The event to which a task belongs.
inline std::size_t event_of(const TensorTasks& tasks, std::size_t task) {
    const auto step =
        std::upper_bound(tasks.steps.begin(), tasks.steps.end(), task,
                         [](std::size_t i, const TensorStep& of) { return i < of.tasks; });
    return static_cast<std::size_t>(step - tasks.steps.begin());
}

}  // namespace partita::plan
