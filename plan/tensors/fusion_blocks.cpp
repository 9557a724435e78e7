// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/fusion_blocks.h"

#include <algorithm>
#include <cstddef>

namespace partita::plan {

namespace {

/// Does the task fetch the tensor for one use by parts?
bool is_fetch(const TensorEvents& events, const TensorTasks& tasks, std::size_t task) {
    const std::size_t e = event_of(tasks, task);
    return tasks.steps[e].fetched && events.events[e].block >= 0;
}

}  // namespace

/// The one block of parts before a collective that moves a gradient, after one that moves a value.
void FusionBlocks::find(const TensorEvents& events, Bucket bucket, TensorTasks& tasks) {
    const std::size_t count = tasks.tasks.size();
    tasks.fusion_blocks.assign(count, kNoFusion);
    tasks.fusible.clear();
    if (tasks.groups.empty()) return;  // there is no collective
    constexpr std::int32_t kUnknown = -2;
    before_.assign(count, kUnknown);
    after_.assign(count, kUnknown);
    const auto meet = [](std::int32_t& block, std::int32_t other) {
        block = block == kUnknown || block == other ? other : -1;
    };
    for (std::size_t e = 0; e < tasks.steps.size(); ++e) {
        if (!tasks.steps[e].waits) continue;
        const std::size_t begin = tasks.steps[e].sources;
        const std::size_t end = begin + tasks.steps[e].parts;
        for (std::size_t i = tasks.sources.offsets[begin]; i < tasks.sources.offsets[end]; ++i) {
            const TaskRef task = tasks.sources.items[i].task;
            if (task >= 0) meet(after_[static_cast<std::size_t>(task)], events.events[e].block);
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        for (const TaskRef ref : tasks.predecessors[i]) {
            meet(before_[i], is_part(ref) ? block_of(ref) : -1);
            if (!is_part(ref)) meet(after_[static_cast<std::size_t>(ref)], -1);
        }
    }
    if (bucket.gradients || bucket.fetches) find_depths(tasks);
    for (std::size_t i = 0; i < count; ++i) {
        const Task& task = tasks.tasks[i];
        if (task.kind != TaskKind::collective) continue;
        const bool moves = task.gradient || task.updated;
        if (bucket.gradients && moves) {
            tasks.fusion_blocks[i] = at_bucket_depth(depths_[i]);
        } else if (bucket.fetches && !moves && is_fetch(events, tasks, i)) {
            tasks.fusion_blocks[i] = at_bucket_depth(depths_[i], /*fetch=*/true);
        } else if (!task.updated) {
            tasks.fusion_blocks[i] = std::max(kNoFusion, task.gradient ? before_[i] : after_[i]);
        }
        if (tasks.fusion_blocks[i] != kNoFusion) {
            tasks.fusible.push_back(static_cast<std::uint32_t>(i));
        }
    }
}

/// New values come after all gradients and begin anew.
void FusionBlocks::find_depths(const TensorTasks& tasks) {
    depths_.assign(tasks.tasks.size(), 0);
    for (std::size_t i = 0; i < depths_.size(); ++i) {
        for (const TaskRef ref : tasks.predecessors[i]) {
            if (is_part(ref)) continue;
            const auto before = static_cast<std::size_t>(ref);
            const Task& task = tasks.tasks[before];
            if (task.updated != tasks.tasks[i].updated) continue;
            const std::int32_t own = task.kind == TaskKind::collective ? 1 : 0;
            depths_[i] = std::max(depths_[i], depths_[before] + own);
        }
    }
}

}  // namespace partita::plan
