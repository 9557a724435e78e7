// SPDX-License-Identifier: Apache-2.0
//
// TensorTasks under construction: events one after the other, each with its tasks, their edges, the
// buffers that they write and read, and what parts of ops find. Private to plan/tensors.
//
// Knows nothing of layouts: bytes, prices and locations are given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/csr.h"
#include "base/units.h"
#include "plan/layout/layout.h"
#include "plan/tasks/task_graph.h"
#include "plan/tensors/buffer_readers.h"
#include "plan/tensors/task_ordinals.h"
#include "plan/tensors/tensor_tasks.h"
#include "plan/tensors/value_pool.h"

namespace partita::plan {

/// What a task moves or a buffer holds: the tensor, its gradient or its new value.
struct Subject {
    int micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    bool recomputed = false;
    int operand = -1;  ///< of a gradient that nobody has added up yet: the consumer's
    /// Layout of memory that is there all along and takes what is moved to it; -1: there is none.
    std::int32_t kept_in = -1;
};

/// A task without device and price.
inline Task task_of(TaskKind kind, const Subject& subject) {
    return {.kind = kind,
            .gradient = subject.gradient,
            .updated = subject.updated,
            .micro_batch = subject.micro_batch};
}

/// The buffer at a location, which holds that piece of the subject.
inline TensorBuffer buffer_of(const Subject& subject, const Location& location, const Piece& piece,
                              Bytes bytes) {
    return {{.device = location.device,
             .bytes = bytes,
             .tensor = {},
             .gradient = subject.gradient,
             .recomputed = subject.recomputed,
             .micro_batch = subject.micro_batch,
             .region = piece.region,
             .summand = piece.summand,
             .operand = subject.operand},
            location.task};
}

class TaskEmitter {
public:
    void clear();

    // Events: what is added belongs to the one that began last.
    void begin_step();
    void end_step();
    [[nodiscard]] TensorStep& step() { return tasks_.steps.back(); }
    /// Of one more part of its block: what it finds there.
    void add_sources(std::span<const Location> locations);

    // Tasks
    /// Sets the ordinal, and the resource set unless it is communication, which has its own.
    TaskRef add_task(const Task& task);
    /// It belongs to the block of a schedule of what it waits for.
    void set_in_block(TaskRef task, bool in_block) {
        tasks_.in_block[static_cast<std::size_t>(task)] = in_block ? 1 : 0;
    }
    [[nodiscard]] bool is_in_block(TaskRef task) const {
        return tasks_.in_block[static_cast<std::size_t>(task)] != 0;
    }
    /// Task::ranks of these devices, in order of rank.
    std::int32_t ranks_of(std::span<const int> devices);
    void add_edge(TaskRef before, TaskRef after) {
        if (before != -1) edges_.emplace_back(after, before);
    }
    [[nodiscard]] TaskRef next_task() const { return static_cast<TaskRef>(tasks_.tasks.size()); }
    /// Of the tasks from `first` on those that wait for none of each other come after what lies on
    /// their devices.
    void delay(TaskRef first, std::span<const Location> awaited);
    /// The task comes after the tasks of these locations and reads what lies there.
    void add_inputs(TaskRef task, std::span<const Location> locations);

    // Buffers
    std::int32_t add_buffer(const TensorBuffer& buffer);
    [[nodiscard]] const TensorBuffer& buffer(std::int32_t id) const {
        return tasks_.buffers[static_cast<std::size_t>(id)];
    }
    void add_persistent(int device, MemoryKind kind, Bytes bytes) {
        tasks_.persistent.push_back({device, kind, bytes});
    }
    /// A part of an op reads it.
    void add_part_reader(TaskRef part, std::int32_t id) {
        readers_.add(part, id);
        mark_read(id);
    }
    [[nodiscard]] bool is_read(std::int32_t id) const {
        return is_read_[static_cast<std::size_t>(id)] != 0;
    }
    /// A trained parameter lies in the buffers that there are.
    void watch_readers();
    /// The task comes after all that read a trained parameter's own buffers on the device.
    void wait_for_readers(TaskRef task, int device);

    /// All but what follows from the tasks (fusion_blocks.h, task_totals.h). Valid until clear().
    TensorTasks& finish();

private:
    /// Reading a view keeps its root alive.
    void mark_read(std::int32_t id) {
        for (; id >= 0; id = buffer(id).root) is_read_[static_cast<std::size_t>(id)] = 1;
    }

    TensorTasks tasks_;
    TaskOrdinals ordinals_;
    BufferReaders readers_;
    std::vector<std::pair<int, std::int32_t>> watched_;    ///< (device, buffer), sorted
    std::vector<std::pair<TaskRef, TaskRef>> edges_;       ///< (after, before)
    std::vector<std::pair<TaskRef, std::int32_t>> reads_;  ///< (task, buffer)
    std::vector<char> is_read_;                            ///< per buffer
    CsrScratch<TaskRef> csr_;
};

}  // namespace partita::plan
