// SPDX-License-Identifier: Apache-2.0
//
// Which replica of a shard a new piece takes: the nearest one. Among equally near ones that with
// the rank of the old piece on the device of the new one, so that replicas form groups side by side
// instead of all asking the first:
//
//     old pieces   0: rows 0-3    1: rows 4-7    2: rows 0-3    3: rows 4-7
//     new pieces   0: all         1: all         2: all         3: all
//     taken        0 1            0 1            2 3            2 3
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cost/machine/machine.h"
#include "plan/layout/layout.h"
#include "plan/layout/shards.h"

namespace partita::plan {

/// Keeps its memory from one layout to the next.
class ReplicaChoice {
public:
    /// From now on it is about the shards `old` of the layout `from`. O(pieces + devices).
    void prepare(const Layout& from, const Shards& old, const cost::Machine& machine);

    /// The piece of `from` that holds the shard for a new piece on `device`. `rank`: of the new
    /// piece among its replicas, for devices on which nothing lies. O(1) where the first old piece
    /// on the device is of the shard, else O(replicas).
    [[nodiscard]] std::int32_t choose(std::size_t shard, int device, std::int32_t rank);

private:
    [[nodiscard]] int distance(int a, int b) const;

    const Layout* from_ = nullptr;
    const Shards* old_ = nullptr;
    const cost::Machine* machine_ = nullptr;
    std::vector<std::int32_t> piece_on_;  ///< per device: the first one; -1: none
    std::vector<std::int32_t> nearest_;   ///< replicas
};

}  // namespace partita::plan
