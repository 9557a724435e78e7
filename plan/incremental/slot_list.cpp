// SPDX-License-Identifier: Apache-2.0
#include "plan/incremental/slot_list.h"

#include <algorithm>

namespace partita::plan {

void SlotList::clear() {
    tasks_.clear();
    predecessor_ends_.clear();
    predecessors_.clear();
    of_next_.clear();
}

void SlotList::add(const SlotTask& task) {
    std::sort(of_next_.begin(), of_next_.end());
    const auto end = std::unique(of_next_.begin(), of_next_.end());
    predecessors_.insert(predecessors_.end(), of_next_.begin(), end);
    of_next_.clear();
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
