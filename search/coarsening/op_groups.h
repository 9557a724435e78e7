// SPDX-License-Identifier: Apache-2.0
//
// OpGroups: ops that move as one, because they must or because parting them is never worth it.
//
//     must     Constraints::together
//     should   a source (input, parameter, constant) with its first consumer,
//              an output with its producer,
//              a cheap op with its producer when it is the producer's only consumer, or with its
//              only consumer:     Conv ─▶ Relu ─▶ Add        {Conv Relu} {Add}
//                                 Cast ─▶ Gather             {Cast Gather}
//
// Cheap: no matrix product, no body, no given costs, and a rule of its own (contract 7's
// conservative ops may be anything). ColocRL joins any op to its only consumer, transitively, which
// makes one group of a whole chain such as a ResNet; here a group grown that way holds at most one
// matrix product and kMaxGroupOps cheap ops, so chains stay divisible layer by layer.
//
// A join that should be is left out when no device may run all of the group or hold what it keeps.
// Source: Mirhoseini et al. 2017 (co-location heuristics), changed as stated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/csr.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"

namespace partita::search {

/// Cheap ops in one group, at most.
inline constexpr int kMaxGroupOps = 16;

struct OpGroups {
    std::vector<std::int32_t> of;               ///< group of each op
    Csr<graph::OpId> members;                   ///< of each group, rising
    std::vector<std::int32_t> allowed;          ///< per group, an index into `device_sets`
    std::vector<std::vector<int>> device_sets;  ///< rising; set 0 is all devices
    /// Two constraints contradict: a sentence naming the ops. Empty: none do. The groups are then
    /// useless.
    std::string conflict;

    [[nodiscard]] std::size_t size() const { return members.rows(); }
    [[nodiscard]] const std::vector<int>& devices(std::size_t group) const {
        return device_sets[static_cast<std::size_t>(allowed[group])];
    }
};

enum class Grouping : std::uint8_t { required_only, all };

/// Groups are numbered in a topological order of their graph (ties by smallest op); where
/// `together` makes that graph cyclic, by the smallest op of those that wait.
OpGroups make_groups(const plan::Problem& problem, Grouping grouping);

}  // namespace partita::search
