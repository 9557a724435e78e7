// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace partita::plan {

class Problem;

/// Frozen priorities: by pass_row(), place of every op's forward and backward (of a parameter its
/// update) in the order of their longest paths to the end of an iteration, by times of whole ops.
/// Smaller = more urgent; no two are equal. Independent of any strategy, so that a change of one op
/// changes the priority of no other. Source: Topcuoglu et al., HEFT, TPDS 2002 (upward rank).
std::vector<std::int32_t> op_priorities(const Problem& problem);

}  // namespace partita::plan
