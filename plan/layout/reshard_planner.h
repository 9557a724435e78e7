// SPDX-License-Identifier: Apache-2.0
//
// Finds reshards (reshard.h), in phases that each keep their memory: who plans thousands of reshards
// keeps one planner.
//
//     shards.h              old pieces that are replicas of one another
//     reshard_needs.h       old pieces from which each new one gets its elements
//     scatter_gather.h      a layout to go through first, or none
//     reshard_groups.h      new pieces that move together
//     collective_choice.h   the collective of a group, or none
//     reshard_builder.h     its transfer, or the copies of its pieces
#pragma once

#include "cost/machine/machine.h"
#include "plan/layout/collective_choice.h"
#include "plan/layout/layout.h"
#include "plan/layout/reshard.h"
#include "plan/layout/reshard_builder.h"
#include "plan/layout/reshard_groups.h"
#include "plan/layout/reshard_needs.h"
#include "plan/layout/scatter_gather.h"
#include "plan/layout/shards.h"

namespace partita::plan {

class ReshardPlanner {
public:
    /// `from` is where a tensor lies: regions of a summand are equal or disjoint (windowed
    /// gradients, whose summands differ, excepted). `to` is not partial, or has the summands of
    /// `from`. Deterministic. Allocates nothing but the result, once the memory that is kept has
    /// the size of the largest reshard.
    ///
    /// O(n log n + devices + pairs * replicas) for n pieces, pairs of an old shard and a new piece
    /// that share elements, and the replicas of an old shard; to this come pairs of shards that
    /// overlap along the one dim that is split most finely, and along others not. At most
    /// O(pieces of `from` * pieces of `to`), which an all-to-all takes.
    Reshard plan(const Layout& from, const Layout& to, RegionTable& regions,
                 const cost::Machine& machine);

private:
    Shards old_;
    ReshardNeeds needs_;
    ScatterGather scatter_gather_;
    ReshardGroups groups_;
    CollectiveChoice collective_;
    ReshardBuilder builder_;
};

}  // namespace partita::plan
