// SPDX-License-Identifier: Apache-2.0
//
// Shardings: a layout said axis by axis, which is how frameworks write layouts down. layout_of()
// says the same piece by piece.
//
//     MatMul y[m n] = x[m k] w[k n], config (m 2)(k 2)      x   dim 0 by m, dim 1 by k
//                                                           w   dim 0 by k
//                                                           y   dim 0 by m, partial over k
//
// Frameworks cut a dim evenly, as if it had no inner structure. Where an op needs other parts (a
// halo, a strided part of a merged dim, a split of an uneven split), no sharding says so, and
// `fault` says why. A windowed operand gets the even part when that holds everything its part
// reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

/// How several axes cut one dim. 5 positions by two axes of 2: 2 1 | 1 1 in turn, 2 2 | 1 0 at
/// once.
enum class Cut : std::uint8_t {
    in_turn,  ///< each cuts what the axis before it left, in the order of the config (DTensor)
    at_once,  ///< into as many parts as all of them make, in any order of axes (Shardy, GSPMD)
};

struct Sharding {
    std::vector<std::vector<std::size_t>> dims;  ///< per dim the axes that cut it, major to minor
    std::vector<std::size_t> partial;            ///< axes along which the parts are summands
    graph::Combine combine = graph::Combine::none;  ///< of these summands
    std::string fault;  ///< why this is not what the op needs; "": it is
};

/// Operand or result `index` of an op under a legal config: the op's own, or that of a parameter's
/// update. It holds in every micro-batch, for that part of the tensor.
Sharding sharding_of(const Problem& problem, graph::OpId op, const OpConfig& config,
                     int micro_batches, Side side, std::size_t index, Cut cut);

}  // namespace partita::plan
