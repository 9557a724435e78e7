// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of a plan send between the processes that execute it. A process has a share of a
// task when it drives a device for which the task makes something, or from which something is
// taken. Per task:
//
//     message   a piece of a buffer on a device of one process that a task's results on devices of
//               another one are made of; it goes there once, however many devices want it
//     token     says that a task is done, to a process that has no share of it and nevertheless waits
//               for it, where no message says so: a control edge
//     meeting   an all-reduce of equal tensors, one per device, over several processes: its ranks are the
//               devices, and it takes the plan's algorithm (all_reduce.h). Or the norm of gradients
//               (clip_work.h): its ranks are the processes with such devices
//
// Everything has a number, the same in every process, since all of them derive it from one task
// graph. Pure functions.
//
// A process does not wait for the shares of others: who needs their data gets a message. What a
// sender changes afterwards is safe where a message holds its piece until it is delivered
// (send_work.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "graph/operators/part.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/meetings.h"

namespace partita::runtime {

/// Which process drives which device.
struct Ownership {
    std::vector<int> process_of_device;  ///< empty: there is one process
    int self = 0;
    bool workers_of_their_own = true;  ///< no two devices share a worker, in any process
    [[nodiscard]] int process_of(int device) const {
        return process_of_device.empty() ? self
                                         : process_of_device[static_cast<std::size_t>(device)];
    }
    [[nodiscard]] bool is_mine(int device) const { return process_of(device) == self; }
};

/// Of what a result of an accumulation, pack, copy or collective is made.
struct Ingredient {
    plan::BufferId buffer;
    graph::Region region;     ///< what of it is there: all that it holds, or a message's piece
    bool is_message = false;  ///< it lies in another process
};
/// Of copies of one value (Combine::none) only the nearest: what lies on the device that makes it,
/// then in its process.
std::vector<Ingredient> ingredients_of(const plan::TaskGraph& tasks, plan::TaskId task,
                                       const plan::Buffer& made, const Ownership& ownership);

struct TaskMessage {
    plan::TaskId task;      ///< for which; of a token the one that is done
    plan::BufferId buffer;  ///< of which it is a piece; invalid: a token
    graph::Region region;   ///< that piece
    int device = -1;        ///< of the sender
    int peer = -1;          ///< the process that it goes to or comes from
    std::int32_t number = 0;
};

struct Messages {
    std::vector<TaskMessage> out;  ///< rising by task; then tokens
    std::vector<TaskMessage> in;   ///< the same
    std::size_t messages_out = 0;  ///< so many are no tokens
    std::size_t messages_in = 0;
    std::vector<Meeting> meetings;  ///< in which this process takes part; rising by task
    /// Per task the tokens that it waits for (places in `in`), and those to send when it is done
    /// (in `out`).
    Csr<std::int32_t> awaited;
    Csr<std::int32_t> released;
    std::int64_t numbers = 0;  ///< in use by anybody

    [[nodiscard]] const Meeting* meeting_of(plan::TaskId task) const;
    /// Place of the message with that piece; there is one.
    [[nodiscard]] std::int32_t find_in(plan::TaskId task, const Ingredient& ingredient) const;
    /// Places of the messages that come for a task here, and of those that go for it: [first,
    /// last).
    using Range = std::pair<std::int32_t, std::int32_t>;
    [[nodiscard]] Range messages_for(plan::TaskId task) const;
    [[nodiscard]] Range messages_from(plan::TaskId task) const;
};

Messages plan_messages(const plan::TaskGraph& tasks, const Ownership& ownership);

}  // namespace partita::runtime
