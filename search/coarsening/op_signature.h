// SPDX-License-Identifier: Apache-2.0
//
// Ops whose parts cost the same: of a model's repeated layers one is priced.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/ids.h"
#include "plan/problem/problem.h"

namespace partita::search {

/// Everything that the prices of an op's parts depend on, measured costs and given ones excepted.
struct OpSignature {
    std::string type;
    std::vector<std::int64_t> numbers;
    friend auto operator<=>(const OpSignature&, const OpSignature&) = default;
};

/// Of an op with that many forwards in an iteration, in up to `most` parts.
OpSignature op_signature(const plan::Problem& problem, graph::OpId op, std::int64_t runs,
                         std::int64_t most);

}  // namespace partita::search
