// SPDX-License-Identifier: Apache-2.0
//
// What devices tell each other in an iteration, by what it is and how it moves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

enum class Moved : std::uint8_t {
    gradients,             ///< of parameters
    parameters,            ///< fetched, or new after an update
    activations,           ///< of the forward, also where it runs again
    activation_gradients,  ///< of the backward
    norms                  ///< of all gradients, to clip them by
};
std::string_view name_of(Moved moved);

struct Communication {
    Moved moved = Moved::activations;
    std::string_view kind;      ///< "all-reduce", "copy"
    std::int64_t messages = 0;  ///< of all devices
    /// Per device that takes part in any communication of the plan: buffers as cost::CollectiveCall
    /// counts them, copies as they are sent.
    Bytes bytes_per_device;
    Time time_per_device;  ///< as if nothing else went on; hidden behind computation or not
};

/// "all-reduce of gradients": what one task of communication moves, and how.
std::string moved_text(const Problem& problem, const Task& task);

/// Most time first. Empty: nothing is moved.
std::vector<Communication> communication_of(const Problem& problem, const TaskGraph& tasks);

}  // namespace partita::plan
