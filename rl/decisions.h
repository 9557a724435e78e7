// SPDX-License-Identifier: Apache-2.0
//
// What a policy decides one after the other: groups of ops, in topological order. Where there are
// more groups than a policy can learn to tell apart, runs of neighbouring groups of equal devices
// and about equal work are one decision:
//
//     groups      g0 g1 g2 g3 │ g4 g5 │ g6 ...        decisions rise with the groups, so that what
//     decisions      d0       │  d1   │  d2           a decision reads was decided before
//
// An op of a group that reads much of the trained parameters beside the op that leads it (an
// embedding's Gather before a layer) is a decision of its own: synchronizing what it reads may
// matter more than what it computes.
//
// Groups without anything to compute are decided with their readers, or not at all.
// Source: Mirhoseini et al. 2017, co-location; REFERENCES.md 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/ids.h"
#include "plan/tasks/task_graph.h"
#include "search/configs/search_space.h"

namespace partita::rl {

struct Decisions {
    Csr<std::uint32_t> groups;           ///< of each decision, rising; of a lone op its group
    Csr<graph::OpId> ops;                ///< what each decision places, rising
    std::vector<std::int32_t> of_group;  ///< -1: no decision
    /// Per op the decision that places it; -1: none does, it lies on a device that it may use.
    std::vector<std::int32_t> of_op;
    std::vector<char> whole;  ///< per decision: its ops must share a device, so none is split

    [[nodiscard]] std::size_t size() const { return groups.rows(); }
};

/// `most` >= 1: no more decisions than that, unless constraints keep neighbours apart.
Decisions make_decisions(search::SearchSpace& space, std::size_t most);

}  // namespace partita::rl
