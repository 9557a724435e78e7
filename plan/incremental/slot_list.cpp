// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/slot_list.h"

#include <algorithm>

namespace partita::plan {

void SlotList::clear() {
    tasks_.clear();
    predecessor_ends_.clear();
    predecessor_count_ = 0;
}

void SlotList::grow() {
    constexpr std::size_t kLeast = 64;
    predecessors_.resize(std::max(kLeast, 2 * predecessor_count_));
}

void SlotList::add(const SlotTask& task) {
    const std::size_t begin = predecessor_ends_.empty() ? 0 : predecessor_ends_.back();
    if (predecessor_count_ > begin + 1) {
        Slot* const first = predecessors_.data() + begin;
        Slot* const end = predecessors_.data() + predecessor_count_;
        std::sort(first, end);
        predecessor_count_ = begin + static_cast<std::size_t>(std::unique(first, end) - first);
    }
    predecessor_ends_.push_back(predecessor_count_);
    tasks_.push_back(task);
}

std::span<const SlotTask> SlotList::tasks() {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
        tasks_[i].predecessors = {predecessors_.data() + begin,
                                  predecessors_.data() + predecessor_ends_[i]};
        begin = predecessor_ends_[i];
    }
    return tasks_;
}

}  // namespace partita::plan
