// SPDX-License-Identifier: Apache-2.0
//
// What a search for the latency of subgraph calls (plan/evaluation/subgraph_latency.h) moves about:
// groups of ops among slots. Every accelerator is a slot; all CPUs together are one, since it makes
// no difference on which of them an op is.
//
// Immutable once built, so chains in several threads share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/csr.h"
#include "plan/evaluation/call_costs.h"
#include "search/coarsening/group_graph.h"

namespace partita::search {

struct CallSpace {
    /// `groups` must outlive it.
    explicit CallSpace(const GroupGraph& groups);

    const GroupGraph* groups;
    plan::CallCosts costs;
    std::vector<std::int64_t> bytes;     ///< per group, on an accelerator
    std::vector<std::int32_t> device;    ///< per slot; of CPUs the first
    std::vector<std::int64_t> capacity;  ///< bytes, per slot
    std::int32_t cpus = -1;              ///< the slot of all CPUs; -1: there are none
    Csr<std::int32_t> neighbours;        ///< groups that share an edge, each once
    Csr<std::int32_t> predecessors;
    Csr<std::int32_t> successors;
    Csr<std::int32_t> slots;  ///< where a group may be, rising; never empty

    [[nodiscard]] std::size_t size() const { return bytes.size(); }
    [[nodiscard]] std::size_t slot_count() const { return device.size(); }
    [[nodiscard]] bool allows(std::size_t group, std::int32_t slot) const;
    /// The device that stands for a slot: a CPU that the group may use.
    [[nodiscard]] std::int32_t device_of(std::size_t group, std::int32_t slot) const;
    /// Slots of a placement on devices.
    [[nodiscard]] std::vector<std::int32_t> slots_of(const Placement& placement) const;
    [[nodiscard]] Placement placement_of(const std::vector<std::int32_t>& slots_of_groups) const;

private:
    void find_slots();
    void connect();

    std::vector<std::int32_t> slot_of_device_;
    std::vector<std::int32_t> cpu_of_;  ///< per group; -1: none
    std::vector<char> anywhere_;        ///< per group: in all slots
};

}  // namespace partita::search
