// SPDX-License-Identifier: Apache-2.0
//
// How a task finds a region of a tensor, or of its gradient, in the buffers that it reads:
//
//     a buffer holds exactly that       the buffer's value
//     one holds more                    a view of it
//     several hold pieces               a new tensor, put together from them
//     none, or not all of it            zeros there: positions of a gradient that nobody reads have no
//                                       gradient, and an operand that another part applies counts as
//                                       nothing in a sum (RULES.md 7)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "graph/operators/part.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/patch.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

inline const plan::Buffer& buffer_of(const plan::TaskGraph& tasks, plan::BufferId id) {
    return tasks.buffers[id.index()];
}

/// Buffers of a task that hold something of a tensor (or of its gradient) that counts: not those
/// that are read only because a sum in place uses their memory.
std::vector<plan::BufferId> buffers_of(const plan::TaskGraph& tasks, plan::TaskId task,
                                       graph::TensorId tensor, bool gradient);

class Fetch {
public:
    Fetch() = default;  ///< of an operand that is left out: get() is undefined
    /// `as`: dtype and device of zeros and of what is put together. All buffers hold the same
    /// tensor.
    Fetch(const plan::TaskGraph& tasks, std::span<const plan::BufferId> buffers,
          const graph::Region& region, at::TensorOptions as);

    [[nodiscard]] at::Tensor get(const Store& store) const;
    [[nodiscard]] bool found_nothing() const { return kind_ == Kind::zeros; }

private:
    enum class Kind : std::uint8_t { none, same, view, pieces, zeros };
    struct Source {
        plan::BufferId buffer;
        Patch patch;
    };
    Kind kind_ = Kind::none;
    bool has_gaps_ = false;
    std::vector<Source> sources_;
    graph::Shape extents_;
    at::TensorOptions as_;
};

}  // namespace partita::runtime
