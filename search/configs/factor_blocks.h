// SPDX-License-Identifier: Apache-2.0
//
// In how many blocks a factor may have to be split. A fused projection gives q, k and v side by
// side; each device needs its heads of all three, which is no contiguous part of the columns but
// one of each third:
//
//     Gemm n = 2304 ──▶ Reshape d2 = 2304 ──▶ Split d2 = (part 3)(768)      n/3, d2/3, then 768
//
// Found from the readers up: whoever takes a dim apart into few major positions and a minor factor
// wants it in that many blocks, and so does whoever passes the dim on.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "plan/problem/problem.h"

namespace partita::search {

struct FactorBlocks {
    int factor = -1;  ///< of OpRule::factors, splittable
    std::int64_t blocks = 2;
    friend auto operator<=>(const FactorBlocks&, const FactorBlocks&) = default;
};

/// Per op, sorted. Blocks divide the factor.
std::vector<std::vector<FactorBlocks>> blocks_of_factors(const plan::Problem& problem);

/// Along what an op may be split, legal or not, degrees left open (1): over replicas, along each
/// factor of several positions, and along factors in these blocks.
std::vector<plan::Axis> axes_to_split(const graph::OpRule& rule,
                                      const std::vector<FactorBlocks>& blocks);

}  // namespace partita::search
