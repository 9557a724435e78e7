// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/fusion_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace partita::plan {
namespace {

using testing::ElementsAre;

/// Tasks of a parameter.
class Tasks {
public:
    /// Returns the task's number.
    TaskRef add(TaskKind kind, bool updated, const std::vector<TaskRef>& before) {
        Task task;
        task.kind = kind;
        task.gradient = !updated;
        task.updated = updated;
        tasks_.tasks.push_back(task);
        tasks_.predecessors.add_row(before);
        tasks_.groups = {{0, 1}};
        return static_cast<TaskRef>(tasks_.tasks.size()) - 1;
    }
    std::vector<std::int32_t> found(bool has_bucket) {
        FusionBlocks().find(TensorEvents{}, {.gradients = has_bucket}, tasks_);
        return tasks_.fusion_blocks;
    }

private:
    TensorTasks tasks_;
};

// What waits for another collective of its tensor is deeper; new values begin anew.
TEST(FusionBlocks, InABucketHaveADepth) {
    constexpr auto kCollective = TaskKind::collective;
    Tasks tasks;
    const TaskRef backward = part_ref(3, 0);
    const TaskRef first = tasks.add(kCollective, false, {backward});
    const TaskRef other = tasks.add(kCollective, false, {backward});
    const TaskRef sum = tasks.add(TaskKind::accumulate, false, {first, other});
    const TaskRef second = tasks.add(kCollective, false, {sum});
    const TaskRef update = tasks.add(TaskKind::update, false, {second});
    const TaskRef gathered = tasks.add(kCollective, true, {update});
    tasks.add(kCollective, true, {gathered});
    const auto at = [](std::int32_t depth) { return at_bucket_depth(depth); };
    EXPECT_THAT(tasks.found(/*has_bucket=*/true),
                ElementsAre(at(0), at(0), kNoFusion, at(1), kNoFusion, at(0), at(1)));
    EXPECT_THAT(tasks.found(/*has_bucket=*/false),
                ElementsAre(3, 3, kNoFusion, kNoFusion, kNoFusion, kNoFusion, kNoFusion));
    for (std::int32_t depth = 0; depth < kBucketDepths; ++depth) {
        EXPECT_TRUE(in_bucket(at(depth)));
        EXPECT_EQ(bucket_depth(at(depth)), depth);
    }
    EXPECT_EQ(at(kBucketDepths), kNoFusion);
    EXPECT_FALSE(in_bucket(kNoFusion));
    EXPECT_FALSE(in_bucket(0));
}

}  // namespace
}  // namespace partita::plan
