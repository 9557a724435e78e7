// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/task_totals.h"

#include <algorithm>
#include <cstddef>

#include "base/units.h"

namespace partita::plan {

namespace {

/// Adds to the sum of that number. What `rows` says of it counts only if it is found in that row,
/// so it need not be reset (Briggs, Torczon 1993).
template <class Number, class Sum>
void add_to(std::vector<std::pair<Number, Sum>>& sums, std::vector<std::uint32_t>& rows,
            Number number, Sum sum) {
    const auto at = static_cast<std::size_t>(number);
    if (at >= rows.size()) rows.resize(at + 1, 0);
    if (rows[at] >= sums.size() || sums[rows[at]].first != number) {
        rows[at] = static_cast<std::uint32_t>(sums.size());
        sums.emplace_back(number, Sum{});
    }
    sums[rows[at]].second += sum;
}

void count_work(TensorTasks& tasks) {
    Int128 work = 0;
    for (const Task& task : tasks.tasks) work += task.duration.raw();
    tasks.work = static_cast<std::int64_t>(std::min<Int128>(work, kMostWork));
    tasks.most_tasks = 0;
    std::size_t begin = 0;
    for (const TensorStep& step : tasks.steps) {
        tasks.most_tasks = std::max(tasks.most_tasks, step.tasks - begin);
        begin = step.tasks;
    }
}

}  // namespace

void TaskTotals::find(TensorTasks& tasks) {
    count_work(tasks);
    add_loads(tasks);
    add_most_bytes(tasks);
}

void TaskTotals::add_loads(TensorTasks& tasks) {
    set_loads_.clear();
    tasks.loads.clear();
    if (tasks.work == kMostWork) return;
    for (std::size_t i = 0; i < tasks.tasks.size(); ++i) {
        if (tasks.fusion_blocks[i] != kNoFusion) continue;
        const Task& task = tasks.tasks[i];
        add_to(set_loads_, rows_, task.resource_set, task.duration.raw());
    }
    for (const auto& [resource_set, load] : set_loads_) {
        for (const std::int32_t resource :
             resource_sets_.resources()[static_cast<std::size_t>(resource_set)]) {
            add_to(tasks.loads, rows_, resource, load);
        }
    }
}

void TaskTotals::add_most_bytes(TensorTasks& tasks) {
    tasks.most_bytes.clear();
    for (const TensorBuffer& buffer : tasks.buffers) {
        if (buffer.bytes != Bytes{0}) add_to(tasks.most_bytes, rows_, buffer.device, buffer.bytes);
    }
    for (const PersistentBytes& kept : tasks.persistent) {
        add_to(tasks.most_bytes, rows_, int{kept.device}, kept.bytes);
    }
}

}  // namespace partita::plan
