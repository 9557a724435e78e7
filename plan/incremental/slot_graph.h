// SPDX-License-Identifier: Apache-2.0
//
// A task graph that changes: what the scheduling rule needs to know of the tasks, in numbered
// slots.
//
//     slot           a place for a task, empty or not; the caller says which task has which
//     resource set   as in TaskGraph
//     key            orders ready tasks that could start at once; no two tasks have the same
//     load           of a resource: the durations of all tasks that occupy it
//
// A change gives some slots another task or none, and can be taken back once. A task whose
// predecessors differ is a changed task too; successors follow from predecessors.
//
// Cost of a change: proportional to the lists it touches; no allocation once these have grown.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/small_vector.h"
#include "plan/tasks/task_graph.h"

namespace partita::plan {

using Slot = std::int32_t;

/// A task in a slot, or an empty slot.
struct SlotTask {
    Slot slot = -1;
    bool present = true;
    std::int32_t resource_set = 0;
    std::int64_t duration = 0;  ///< picoseconds, > 0
    std::int32_t launch = 0;    ///< picoseconds: Task::launch
    std::uint64_t key = 0;
    std::span<const Slot> predecessors;  ///< distinct; read during the call only
};

class SlotGraph {
public:
    using Predecessors = SmallVector<Slot, 4>;
    using Successors = SmallVector<Slot, 4>;
    /// What a timeline reads again and again, in one cache line.
    struct alignas(64) Node {
        std::int64_t duration = 0;
        std::uint64_t key = 0;
        std::int32_t resource_set = -1;  ///< -1: empty
        std::int32_t launch = 0;
        Predecessors predecessors;
    };
    /// What a slot held.
    struct Before {
        std::int64_t duration = 0;
        std::uint64_t key = 0;
        std::int32_t resource_set = -1;
        std::int32_t launch = 0;
        Predecessors predecessors;
    };

    /// `hosts`: as in TaskGraph; nothing where no launch takes time.
    SlotGraph(int resource_count, Csr<std::int32_t> resource_sets, Csr<std::int32_t> hosts = {});

    /// Later changes may use it. Returns its number.
    std::int32_t add_resource_set(std::span<const std::int32_t> resources,
                                  std::span<const std::int32_t> hosts = {});

    /// Each slot once. The graph must stay acyclic, and every predecessor present. Tasks that are
    /// there already, with their predecessors in that order, are no change.
    void change(std::span<const SlotTask> tasks);
    /// Takes the latest change back, once.
    void reject();

    [[nodiscard]] const Node& operator[](Slot slot) const {
        return nodes_[static_cast<std::size_t>(slot)];
    }
    [[nodiscard]] const Successors& successors(Slot slot) const {
        return successors_[static_cast<std::size_t>(slot)];
    }
    [[nodiscard]] bool has(Slot slot) const { return (*this)[slot].resource_set >= 0; }
    [[nodiscard]] std::size_t slots() const { return nodes_.size(); }
    [[nodiscard]] std::size_t tasks() const { return tasks_; }
    [[nodiscard]] std::span<const std::int32_t> resources(std::int32_t resource_set) const {
        return resource_sets_[static_cast<std::size_t>(resource_set)];
    }
    [[nodiscard]] std::span<const std::int32_t> hosts(std::int32_t resource_set) const {
        return hosts_[static_cast<std::size_t>(resource_set)];
    }
    /// One more than the last device with a host that launches; 0: none does.
    [[nodiscard]] std::size_t host_count() const { return host_count_; }
    [[nodiscard]] std::size_t resource_sets() const { return resource_sets_.rows(); }
    [[nodiscard]] const Csr<std::int32_t>& resource_set_table() const { return resource_sets_; }
    [[nodiscard]] std::size_t resource_count() const { return loads_.size(); }
    [[nodiscard]] std::span<const std::int64_t> loads() const { return loads_; }

    /// What the slots of the latest change held before it, in its order; empty ones have resource
    /// set -1.
    [[nodiscard]] std::span<const Slot> changed() const { return {changed_.data(), count_}; }
    [[nodiscard]] const Before& before(std::size_t index) const { return before_[index]; }

private:
    [[nodiscard]] bool holds(const SlotTask& task) const;
    void put(const SlotTask& task);
    void link(Slot slot);
    void unlink(Slot slot);
    void add_load(const Node& node, std::int64_t sign);
    void know_host(std::int32_t device);

    Csr<std::int32_t> resource_sets_;
    Csr<std::int32_t> hosts_;  ///< per resource set
    std::size_t host_count_ = 0;
    std::vector<Node> nodes_;
    std::vector<Successors> successors_;
    std::vector<std::int64_t> loads_;  ///< per resource
    std::size_t tasks_ = 0;
    // Of the latest change. Kept at their largest sizes, so that lists keep their memory.
    std::vector<Slot> changed_;
    std::vector<Before> before_;
    std::size_t count_ = 0;
};

}  // namespace partita::plan
