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
    void add_predecessor(Slot slot) { predecessors_.push_back(slot); }
    void add(const SlotTask& task);

    /// All that were added, predecessors rising. Valid until the next addition.
    std::span<const SlotTask> tasks();

private:
    std::vector<SlotTask> tasks_;
    std::vector<std::size_t> predecessor_ends_;  ///< per task, in predecessors_
    std::vector<Slot> predecessors_;  ///< of the tasks, then of the next one as they came
};

}  // namespace partita::plan
