// SPDX-License-Identifier: Apache-2.0
//
// Collectives in which every device gives something and gets the combination of all: what a
// Communicator does as one all-reduce, each device a rank, instead of everybody reading everybody
// (combine_work.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "plan/tasks/task_graph.h"

namespace partita::runtime {

struct Meeting {
    plan::TaskId task;
    std::int32_t first_number =
        0;  ///< of messages (messages.h): the square of so many as there are ranks
    /// Per rank: what it gives and what it gets, tensor by tensor in one order; of clip nothing.
    std::vector<std::vector<std::pair<plan::BufferId, plan::BufferId>>> buffers;
};

/// The devices of what several do together, in order of ranks; else the one.
std::span<const int> devices_of(const plan::TaskGraph& tasks, plan::TaskId task);

/// Nothing when the task is no all-reduce of equal tensors, one per device.
std::optional<Meeting> find_meeting(const plan::TaskGraph& tasks, plan::TaskId task);

}  // namespace partita::runtime
