// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/slot_list.h"

#include <algorithm>

namespace partita::plan {

void SlotList::clear() {
    tasks_.clear();
    predecessor_ends_.clear();
    predecessors_.clear();
}

void SlotList::add(const SlotTask& task) {
    const std::size_t begin = predecessor_ends_.empty() ? 0 : predecessor_ends_.back();
    if (predecessors_.size() > begin + 1) {
        const auto first = predecessors_.begin() + static_cast<std::ptrdiff_t>(begin);
        std::sort(first, predecessors_.end());
        predecessors_.erase(std::unique(first, predecessors_.end()), predecessors_.end());
    }
    predecessor_ends_.push_back(predecessors_.size());
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
