// SPDX-License-Identifier: Apache-2.0
//
// Parts of ops and tensors: which positions of its factors a part of an op covers, and which
// positions of its operands and results those are.
//
//     Linear y[m n] += x[m k] w[k n], n split in 2     part 1:  m all   n [16 32)   k all
//                                                               x [all all]   w [all 16-32)
//
//     fused projection [(3 h d)], h split in 4         part 0:  0-16, 64-80, 128-144: a strided shard
//
// Sizes: part i of d has ceil(n / d) positions, the last fewer; a degree that leaves a part empty
// is illegal (RULES.md 3). A split of a part splits its positions, so splitting twice may differ
// from splitting once (RULES.md 2).
#pragma once

#include <cstdint>
#include <vector>

#include "base/small_vector.h"
#include "graph/operators/op_rule.h"
#include "graph/tensor.h"

namespace partita::graph {

/// Positions of a dim or factor: sorted, disjoint, non-empty ranges that do not touch. Nearly
/// always one.
using Positions = SmallVector<Range, 1>;

/// [0, extent); no range at all when extent is 0.
Positions all_positions(std::int64_t extent);
std::int64_t count(const Positions& positions);
Positions intersection(const Positions& a, const Positions& b);
bool contains(const Positions& outer, const Positions& inner);

/// Does a split of `extent` positions into `degree` parts leave none empty?
bool is_legal_degree(std::int64_t extent, std::int64_t degree);
/// The index-th of `degree` parts of the positions, in their order.
Positions part_of(const Positions& positions, std::int64_t degree, std::int64_t index);
/// The positions from 0 to `extent` as `blocks` equal blocks: the index-th of `degree` parts of
/// each. `blocks` divides `extent`.
Positions part_of_blocks(std::int64_t extent, std::int64_t blocks, std::int64_t degree,
                         std::int64_t index);

/// Per dim of a tensor its positions: a box with holes.
struct Region {
    std::vector<Positions> dims;

    [[nodiscard]] std::int64_t volume() const;  ///< elements; 1 for a tensor without dims
    [[nodiscard]] bool empty() const;
    friend bool operator==(const Region&, const Region&) = default;
};

Region whole_region(const Shape& shape);
/// How many positions of each dim.
Shape extents_of(const Region& region);
Region intersection(const Region& a, const Region& b);
bool contains(const Region& outer, const Region& inner);
/// Does `inner` lie in one piece of memory when `outer`, which contains it, is stored row by row?
bool is_contiguous(const Region& outer, const Region& inner);

/// Per factor of an op the positions that a part covers.
using Box = std::vector<Positions>;

Box whole_box(const OpRule& rule);

/// What a part reads of an operand, the halo of a windowed dim included, or writes of a result.
/// `tensor` is rule.operands[i] or rule.results[i], `shape` the tensor's.
Region region_of(const OpRule& rule, const TensorRule& tensor, const Shape& shape, const Box& box);
/// The same of one dim, of that extent. Reads the box of its factors only.
Positions positions_of(const OpRule& rule, const DimRule& dim, std::int64_t extent, const Box& box);

}  // namespace partita::graph
