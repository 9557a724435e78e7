// SPDX-License-Identifier: Apache-2.0
//
// Ops that are alike: under one config their parts cover the same, so of a model's repeated layers
// one is laid out. Prices are not compared: costs may be known by name.
#pragma once

#include <cstdint>
#include <vector>

#include "base/hash_index.h"
#include "graph/ids.h"
#include "plan/problem/problem.h"

namespace partita::plan {

class AlikeOps {
public:
    /// The problem must outlive it.
    explicit AlikeOps(const Problem& problem);

    /// The one that was asked for first of those alike, itself among them.
    [[nodiscard]] graph::OpId first(graph::OpId op);

private:
    [[nodiscard]] std::uint64_t hash_of(graph::OpId op) const;
    [[nodiscard]] bool are_alike(graph::OpId a, graph::OpId b) const;

    const Problem& problem_;
    HashIndex index_;                  ///< of ops that are the first
    std::vector<std::int32_t> first_;  ///< per op; -1: not asked for yet
};

}  // namespace partita::plan
