// SPDX-License-Identifier: Apache-2.0
//
// What the tasks and buffers of a tensor come to together: TensorTasks::work, most_tasks, loads and
// most_bytes. Private to plan/tensors.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/tasks/resource_sets.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

class TaskTotals {
public:
    /// Must outlive it.
    explicit TaskTotals(const ResourceSets& resource_sets) : resource_sets_(resource_sets) {}
    /// All else that the tasks say must be known.
    void find(TensorTasks& tasks);

private:
    void add_loads(TensorTasks& tasks);
    void add_most_bytes(TensorTasks& tasks);

    const ResourceSets& resource_sets_;
    // Kept for their memory.
    std::vector<std::pair<std::int32_t, std::int64_t>> set_loads_;  ///< per resource set
    std::vector<std::uint32_t> rows_;  ///< of sums, by resource set, resource or device
};

}  // namespace partita::plan
