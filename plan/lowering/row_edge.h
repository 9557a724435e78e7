// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// A task of one row (StrategyTensors::events) that waits for a part, or a task, that another row
/// refers to so.
struct RowEdge {
    std::size_t row = 0;
    std::size_t task = 0;
    std::size_t before_row = 0;
    TaskRef before = -1;
};

}  // namespace partita::plan
