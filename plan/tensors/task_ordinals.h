// SPDX-License-Identifier: Apache-2.0
//
// Ordinals of a tensor's tasks, which tell those of one name apart. Private to plan/tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/tasks/task_graph.h"

namespace partita::plan {

class TaskOrdinals {
public:
    void clear() {
        before_in_bucket_.clear();
        ++run_;
    }

    /// That of the last of all tasks; to be asked for each as it is added. Only what belongs to
    /// reshards and sums can happen several times to one tensor on one device: others have 0.
    std::int32_t of_last(const std::vector<Task>& tasks) {
        const Task& task = tasks.back();
        Bucket& bucket = buckets_[bucket_of_name(task) % buckets_.size()];
        if (bucket.run != run_) bucket = {.run = run_, .latest = -1};
        const std::int32_t latest =
            std::exchange(bucket.latest, static_cast<std::int32_t>(tasks.size()) - 1);
        before_in_bucket_.push_back(latest);
        if (!is_communication(task.kind) && !is_local_move(task.kind)) return 0;
        for (std::int32_t i = latest; i >= 0; i = before_in_bucket_[static_cast<std::size_t>(i)]) {
            const Task& other = tasks[static_cast<std::size_t>(i)];
            if (have_one_name(other, task)) return other.ordinal + 1;
        }
        return 0;
    }

private:
    /// Tasks of this run, some of one name among them.
    struct Bucket {
        std::uint64_t run = 0;
        std::int32_t latest = -1;
    };
    static constexpr std::size_t kBuckets = 4'096;

    /// Tasks of one name have equal ones.
    static std::size_t bucket_of_name(const Task& task) {
        const std::int32_t resource_set =
            task.kind == TaskKind::copy ? task.resource_set : task.device;
        constexpr std::size_t kMultiplier = 0x9E3779B1;
        return static_cast<std::size_t>(resource_set) +
               static_cast<std::size_t>(task.micro_batch + 1) * kMultiplier;
    }

    std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);
    std::uint64_t run_ = 0;                       ///< calls of clear() so far
    std::vector<std::int32_t> before_in_bucket_;  ///< per task; -1: none
};

}  // namespace partita::plan
