// SPDX-License-Identifier: Apache-2.0
//
// The tasks of one tensor in classes, and those of them that are kept. Private to plan/folding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/hash_index.h"
#include "plan/folding/folding.h"
#include "plan/folding/resource_classes.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// Where a part lies: the device, and its number among the parts of its op there.
struct PartPlace {
    std::int32_t device = -1;
    std::int32_t number = 0;
};

/// What does not differ between tensors.
struct FoldingRules {
    const ResourceSets& resource_sets;
    const ResourceClasses& classes;
    std::span<const std::int32_t> representatives;  ///< per device
    /// Per class of channels those that may stand for it, rising: all kept tasks that need one of
    /// the class have them.
    std::map<std::int64_t, std::vector<std::int32_t>> channels;
};

/// Memory that classify() keeps from one tensor to the next.
struct FoldingScratch {
    HashIndex alike;                   ///< hashes of tasks on a device, by number
    std::vector<std::int32_t> counts;  ///< per number: how many tasks there were so far
    std::vector<std::uint64_t> before;
};

class TensorFolding {
public:
    /// Of a block of events: its parts, all of them and those kept.
    struct Block {
        std::span<const PartPlace> places;
        const FoldedParts* parts = nullptr;
    };

    /// All must outlive it.
    TensorFolding(const TensorEvents& events, const TensorTasks& tasks, std::vector<Block> blocks)
        : events_(events), tasks_(tasks), blocks_(std::move(blocks)) {}

    [[nodiscard]] std::span<const Task> tasks() const { return tasks_.tasks; }

    /// Finds the classes of its tasks, and tells all resources and devices what they see. `sets`: per
    /// resource set in use its class (ResourceClasses::hash_of).
    void classify(const ResourceSets& resource_sets, std::span<const std::uint64_t> sets,
                  ResourceClasses& classes, FoldingScratch& scratch);

    /// By the classes found last. Null: its tasks do not fold.
    [[nodiscard]] std::unique_ptr<FoldedTasks> folded(FoldingRules& rules) const;

private:
    using Class = std::uint64_t;

    [[nodiscard]] Class class_of(TaskRef ref, const ResourceClasses& classes) const;
    void find_traits();
    [[nodiscard]] Class class_of_task(std::size_t task, std::span<const std::uint64_t> sets,
                                      const ResourceClasses& classes,
                                      FoldingScratch& scratch) const;
    void classify_buffers(ResourceClasses& classes);
    void tell_reads(ResourceClasses& classes) const;

    // Of folded():
    struct Kept;
    [[nodiscard]] bool keep_tasks(FoldingRules& rules, Kept& kept) const;
    [[nodiscard]] bool share_channels(std::span<const std::int32_t> resources,
                                      FoldingRules& rules) const;
    void keep_buffers(const FoldingRules& rules, Kept& kept) const;
    void add_tasks(const Kept& kept, TensorTasks& folded) const;
    void add_steps(const Kept& kept, TensorTasks& folded) const;
    void add_persistent(const FoldingRules& rules, TensorTasks& folded) const;
    [[nodiscard]] TaskRef folded(TaskRef ref, const Kept& kept) const;

    const TensorEvents& events_;
    const TensorTasks& tasks_;
    std::vector<Block> blocks_;
    std::vector<Hash> traits_;    ///< per task: what is the same in all rounds
    std::vector<Class> found_;    ///< per task
    std::vector<Class> buffers_;  ///< per buffer
};

}  // namespace partita::plan
