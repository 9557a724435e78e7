// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of an incremental lowering wait for that fetch parameters anew for each use. Found
// for all of them, whatever has changed: that is little beside the timeline, and nothing where no
// parameter is fetched so.
#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "plan/incremental/lowering.h"

namespace partita::plan {

/// Tasks that wait for others than before are emitted.
void IncrementalLowering::find_limits() {
    std::vector<SlotLimit> limits = limits_now();
    if (limits == fetch_waits_) return;
    std::vector<SlotLimit> different;
    std::ranges::set_symmetric_difference(fetch_waits_, limits, std::back_inserter(different));
    pending_.fetch_waits_before = std::exchange(fetch_waits_, std::move(limits));
    for (const SlotLimit& limit : different) touch_fetching(limit.row, limit.task);
}

std::vector<IncrementalLowering::SlotLimit> IncrementalLowering::limits_now() const {
    std::vector<FetchedTensor> fetched;
    for (const graph::OpId op : parameters_) {
        const std::size_t row = rows().row(graph_.op(op).outputs[0], 0);
        const TensorTasks* const tasks = tensors_[row].tasks;
        if (tasks != nullptr && tasks->fetches) fetched.push_back({row, tasks});
    }
    std::vector<SlotLimit> limits;
    if (fetched.empty()) return limits;
    for (const FetchLimit& limit : fetch_limits_.find(block_order(), fetched)) {
        limits.push_back({limit.row, limit.task, resolved(limit.before_row, limit.before)});
    }
    std::ranges::sort(limits);
    const auto repeated = std::ranges::unique(limits);
    limits.erase(repeated.begin(), repeated.end());
    return limits;
}

/// And that with which it moves.
void IncrementalLowering::touch_fetching(std::size_t row, std::size_t task) {
    const Tensor& tensor = touch(row);
    if (task >= tensor.own.size() || tensor.targets[task] == tensor.own[task]) return;
    const std::vector<Fused>& all = fused_[fusion_place(row, *tensor.tasks, task)];
    const auto found = std::ranges::find(all, tensor.targets[task], &Fused::slot);
    assert(found != all.end());
    touch(found->members[0].row);
}

}  // namespace partita::plan
