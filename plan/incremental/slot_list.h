// SPDX-License-Identifier: Apache-2.0
//
// A list of slots with their tasks, while it is written: predecessors first, then their task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/incremental/slot_graph.h"

namespace partita::plan {

/// Keeps its memory from one list to the next.
class SlotList {
public:
    void clear();

    /// Of the task that is added next; may be said more than once.
    void add_predecessor(Slot slot) {
        if (predecessor_count_ == predecessors_.size()) grow();
        predecessors_[predecessor_count_++] = slot;
    }
    void add(const SlotTask& task);

    /// All that were added, predecessors rising. Valid until the next addition.
    std::span<const SlotTask> tasks();

private:
    void grow();

    std::vector<SlotTask> tasks_;
    std::vector<std::size_t> predecessor_ends_;  ///< per task, in predecessors_
    std::vector<Slot> predecessors_;  ///< as far as there is memory; some are pushed for each task
    std::size_t predecessor_count_ = 0;
};

}  // namespace partita::plan
