// SPDX-License-Identifier: Apache-2.0
//
// Which splits of an op are checked, and the boxes of their parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"

namespace partita::tests {

struct FactorSplit {
    int factor = 0;
    std::int64_t degree = 2;
};
using Split = std::vector<FactorSplit>;  ///< major to minor

/// Every splittable factor in every legal degree of 2 to 4; then each pair of factors in such
/// degrees, a factor with itself too, small degrees first, while all splits together have at most
/// `most_parts` parts.
std::vector<Split> splits_of(const graph::OpRule& rule, std::size_t most_parts);

std::vector<graph::Box> boxes_of(const graph::OpRule& rule, const Split& split);

std::string text_of(const graph::OpRule& rule, const Split& split);  ///< "n/2 k/3"

}  // namespace partita::tests
