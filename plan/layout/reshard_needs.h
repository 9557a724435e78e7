// SPDX-License-Identifier: Apache-2.0
//
// What every new piece of a reshard needs: from which old pieces, and which of their elements. Each
// old shard that shares elements with the new piece gives them by one of its replicas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/csr.h"
#include "cost/machine/machine.h"
#include "plan/layout/layout.h"
#include "plan/layout/overlap_index.h"
#include "plan/layout/replica_choice.h"
#include "plan/layout/shards.h"

namespace partita::plan {

/// From where a tensor lies to where it is needed.
struct LayoutPair {
    const Layout& from;
    const Layout& to;

    [[nodiscard]] const Piece& source(std::int32_t i) const {
        return from.pieces[static_cast<std::size_t>(i)];
    }
    [[nodiscard]] const Piece& target(std::int32_t i) const {
        return to.pieces[static_cast<std::size_t>(i)];
    }
};

struct Need {
    std::int32_t source = -1;  ///< piece of the old layout
    std::int32_t region = -1;  ///< what it has in common with the new piece
};

/// Keeps its memory from one reshard to the next.
class ReshardNeeds {
public:
    /// `old`: the shards of pair.from. Takes from each the replica that ReplicaChoice prefers; with
    /// `same_ranks` that with the rank of the old piece that has the index of the new one. O(n log n
    /// + pairs of shards that overlap along the dim of OverlapIndex + needs * replicas).
    void find(const LayoutPair& pair, const Shards& old, bool same_ranks, RegionTable& regions,
              const cost::Machine& machine);

    /// Of a new piece, in the order of old shards.
    [[nodiscard]] std::span<const Need> operator[](std::int32_t target) const {
        return needs_[static_cast<std::size_t>(target)];
    }

private:
    /// An old shard that has elements of a new one.
    struct Common {
        std::int32_t shard = -1;
        std::int32_t region = -1;
    };
    void find_commons(const LayoutPair& pair, const Shards& old, RegionTable& regions);

    Shards new_;
    OverlapIndex index_;                     ///< of the old shards
    std::vector<std::int32_t> old_regions_;  ///< per old shard
    std::vector<std::int32_t> new_regions_;  ///< per new shard
    Csr<Common> commons_;                    ///< per new shard
    ReplicaChoice choice_;
    Csr<Need> needs_;  ///< per new piece
};

}  // namespace partita::plan
