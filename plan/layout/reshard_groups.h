// SPDX-License-Identifier: Apache-2.0
//
// The groups of a reshard: new pieces that need something from other devices, together where they
// need the same old piece. Each group moves by a transfer of its own, or by copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/csr.h"
#include "base/union_find.h"
#include "plan/layout/reshard_needs.h"

namespace partita::plan {

/// Keeps its memory from one reshard to the next.
class ReshardGroups {
public:
    /// O((pieces + what ReshardNeeds lists) * log pieces).
    void find(const LayoutPair& pair, const ReshardNeeds& needs);

    /// New pieces that need one old piece alone, on their own device; rising. They are in no group.
    [[nodiscard]] std::span<const std::int32_t> local() const { return local_; }
    /// Groups in the order of their first new pieces.
    [[nodiscard]] std::size_t size() const { return groups_.rows(); }
    /// New pieces, rising.
    [[nodiscard]] std::span<const std::int32_t> operator[](std::size_t group) const {
        return groups_[group];
    }

private:
    using Member = std::pair<std::int32_t, std::int32_t>;  ///< group, new piece

    Csr<std::int32_t> groups_;
    std::vector<std::int32_t> local_;
    std::vector<std::int32_t> remote_;    ///< new pieces that are not local
    UnionFind needed_together_;           ///< old pieces
    std::vector<char> is_united_;         ///< per list of sources
    std::vector<std::int32_t> group_of_;  ///< per old piece that is a root; -1: none yet
    std::vector<Member> members_;
    CsrScratch<std::int32_t> scratch_;
};

}  // namespace partita::plan
