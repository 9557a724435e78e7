// SPDX-License-Identifier: Apache-2.0
//
// What clips gradients in an incremental lowering: one slot, before all updates, found anew where
// any of these is touched.
#include <algorithm>

#include "plan/incremental/lowering.h"

namespace partita::plan {

void IncrementalLowering::emit_clip() {
    const bool differs = std::ranges::any_of(
        clipping_.rows(), [this](std::size_t row) { return pending_.touched.has[row] != 0; });
    if (!differs) return;
    const GradientClip clip =
        clipping_.find([this](std::size_t row) { return tensors_[row].tasks; });
    for (const std::size_t row : clipping_.rows()) {
        const TensorTasks& tasks = *tensors_[row].tasks;
        for_each_update(tasks, [&](std::size_t update) {
            for (const TaskRef ref : tasks.predecessors[update])
                list_.add_predecessor(resolved(row, ref));
        });
    }
    const bool alone = clip.devices.size() == 1;
    emit({.slot = clip_slot_,
          .resource_set =
              alone ? clip.devices[0] : resource_sets_.of_ranks(clip.devices).resource_set,
          .duration = clip.task.duration.raw(),
          .launch = launch_of(clip.task.kind, clip.task.duration.raw()),
          .key = keys_.of_last(clip.task.priority),
          .predecessors = {}},
         IncrementalBlockOrder::kNone);
}

}  // namespace partita::plan
