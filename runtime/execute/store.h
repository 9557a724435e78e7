// SPDX-License-Identifier: Apache-2.0
//
// What an iteration of a plan holds: the value of every buffer of its task graph, as long as
// somebody needs it.
//
// Threads: a buffer is written by one task and read by tasks that come after it, so values need no
// lock; who waits for a task (task_board.h) sees what it wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "plan/tasks/task_graph.h"

namespace partita::runtime {

struct Store {
    std::vector<at::Tensor> values;  ///< per buffer; undefined: not written, or given back

    [[nodiscard]] at::Tensor& operator[](plan::BufferId buffer) { return values[buffer.index()]; }
    [[nodiscard]] const at::Tensor& operator[](plan::BufferId buffer) const {
        return values[buffer.index()];
    }
};

/// What one worker does of one task.
class Work {
public:
    virtual ~Work() = default;
    virtual void run(Store& store) = 0;
    /// Of those that a run has met with: when the last of them was ready, since the start of the
    /// iteration.
    [[nodiscard]] virtual Time met() const { return Time{0}; }
};

}  // namespace partita::runtime
