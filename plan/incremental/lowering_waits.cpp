// SPDX-License-Identifier: Apache-2.0
//
// What the tasks of an incremental lowering wait for that fetch parameters anew for each use, or reduce
// gradients in one bucket. Found for all of them, whatever has changed: that is little beside the
// timeline, and nothing where there are none.
#include <algorithm>
#include <iterator>
#include <utility>

#include "plan/incremental/lowering.h"

namespace partita::plan {

/// Tasks that wait for others than before are emitted.
void IncrementalLowering::find_waits() {
    std::vector<CommunicationWait> waits = waits_now();
    if (waits == waits_) return;
    std::vector<CommunicationWait> different;
    std::ranges::set_symmetric_difference(waits_, waits, std::back_inserter(different));
    pending_.waits_before = std::exchange(waits_, std::move(waits));
    for (const CommunicationWait& wait : different) touch(wait.row);
}

std::vector<IncrementalLowering::CommunicationWait> IncrementalLowering::waits_now() const {
    const auto tasks_of = [this](std::size_t row) { return tensors_[row].tasks; };
    std::vector<CommunicationWait> waits;
    const auto add = [&](const std::vector<RowEdge>& edges) {
        for (const RowEdge& edge : edges) {
            waits.push_back({edge.row, edge.task, resolved(edge.before_row, edge.before)});
        }
    };
    add(fetch_limits_.find(block_order(), tasks_of));
    if (reduction_limits_.any()) add(reduction_limits_.find(tasks_of));
    std::ranges::sort(waits);
    const auto repeated = std::ranges::unique(waits);
    waits.erase(repeated.begin(), repeated.end());
    return waits;
}

}  // namespace partita::plan
