// SPDX-License-Identifier: Apache-2.0
//
// What of an accepted timeline a change concerns first, and its state at any time.
#include <algorithm>

#include "plan/incremental/timeline.h"

namespace partita::plan {

/// The first time of the accepted timeline that matters to a changed task; kNever: none does.
std::int64_t IncrementalTimeline::find_windows() {
    const std::span<const Slot> changed = graph_.changed();
    windows_.assign(changed.size(), {});
    changed_positions_.clear();
    for (std::size_t i = 0; i < changed.size(); ++i) {
        Mark& mark = marks_[at(changed[i])];
        mark.change = static_cast<std::int32_t>(i);
        if (!mark.is_accepted()) continue;
        changed_positions_.push_back(mark.position);
        windows_[i].old_start = starts_[at(mark.position)];
    }
    std::sort(changed_positions_.begin(), changed_positions_.end());
    std::int64_t first = kNever;
    for (std::size_t i = 0; i < changed.size(); ++i) {
        windows_[i].waits_alike = waits_alike(i);
        first = std::min(first, windows_[i].old_start.value_or(kNever));
        if (!graph_.has(changed[i]) || windows_[i].waits_alike) continue;
        std::int64_t ready = 0;
        for (const Slot p : graph_[changed[i]].predecessors) {
            ready = std::max(ready, mark(p).is_changed() ? kNever : end_of(p));
        }
        first = std::min(first, ready);
    }
    return first;
}

/// A task whose duration alone differs matters when it starts: until then it waits, or not, as
/// before.
bool IncrementalTimeline::waits_alike(std::size_t index) const {
    const SlotGraph::Before& before = graph_.before(index);
    const SlotGraph::Node& now = graph_[graph_.changed()[index]];
    return before.resource_set == now.resource_set && before.key == now.key &&
           before.predecessors == now.predecessors &&
           std::none_of(now.predecessors.begin(), now.predecessors.end(),
                        [&](Slot p) { return mark(p).is_changed(); });
}

/// The first that starts then or later.
std::int32_t IncrementalTimeline::position_at(std::int64_t time) const {
    const auto position = std::lower_bound(starts_.begin(), starts_.end(), time);
    return static_cast<std::int32_t>(position - starts_.begin());
}

/// The tasks before a position of the accepted timeline that end after some time.
void IncrementalTimeline::find_running(std::int32_t position, std::int64_t time) {
    found_running_.clear();
    if (order_.empty()) return;
    const std::size_t resources = graph_.resource_count();
    const std::int32_t block = std::min(position, size() - 1) / kStride;
    const auto here = last_.begin() + static_cast<std::ptrdiff_t>(at(block) * resources);
    latest_.assign(here, here + static_cast<std::ptrdiff_t>(resources));
    for (std::int32_t i = block * kStride; i < position; ++i) {
        if (ends_[at(i)] <= time) continue;
        for (const std::int32_t r : graph_.resources(resource_sets_[at(i)]))
            latest_[at(r)] = order_[at(i)];
    }
    for (std::size_t r = 0; r < resources; ++r) {
        const Slot slot = latest_[r];
        if (slot < 0 || end_of(slot) <= time) continue;
        const auto first = graph_.resources(resource_sets_[at(mark(slot).position)])[0];
        if (at(first) == r) found_running_.push_back(slot);
    }
}

}  // namespace partita::plan
