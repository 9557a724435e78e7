// SPDX-License-Identifier: Apache-2.0
//
// How every tensor of a strategy lies, piece by piece and index by index: what exported shardings
// are compared with. From layout_of() alone.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/layout/layout.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"

namespace partita::plan {

using Indices = std::vector<std::int64_t>;

struct LaidOutPiece {
    int device = -1;
    bool present = true;
    int summand = 0;
    std::vector<Indices> dims;  ///< per dim the positions that the part has
};

/// One operand or result in one micro-batch.
struct LaidOut {
    graph::OpId op;
    Side side = Side::result;
    std::size_t index = 0;
    graph::TensorId tensor;
    const OpConfig* config = nullptr;
    graph::Combine combine = graph::Combine::none;
    std::vector<Indices> whole;  ///< per dim the positions of the tensor in this micro-batch
    std::vector<bool> windowed;  ///< per dim: a part may read less than its share
    std::vector<LaidOutPiece> pieces;

    [[nodiscard]] bool is_windowed() const;
};

/// Per operand and result of every op, and per updated parameter, its micro-batches.
std::vector<std::vector<LaidOut>> laid_out(const Problem& problem, const Strategy& strategy);

/// The index-th of `count` parts of ceil(size / count), the last ones shorter or empty.
Indices chunk(const Indices& positions, std::int64_t count, std::int64_t index);

/// Does a framework that gives the part `given` say what the piece is?
bool says(const LaidOut& tensor, const LaidOutPiece& piece, const std::vector<Indices>& given);

}  // namespace partita::plan
