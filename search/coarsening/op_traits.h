// SPDX-License-Identifier: Apache-2.0
//
// What an op is, apart from its name and place: operator, attributes, factor rule, devices, and
// what is known of its operands without their shapes' names. Ops of equal traits whose tensors are
// alike have the same legal configs, layouts and prices. Ops with bodies or given costs are like no
// other.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/ids.h"
#include "plan/problem/problem.h"

namespace partita::search {

/// Written out, not hashed, so that equal means equal.
std::vector<std::int64_t> op_traits(const plan::Problem& problem, graph::OpId op);

}  // namespace partita::search
