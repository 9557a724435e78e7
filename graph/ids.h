// SPDX-License-Identifier: Apache-2.0
//
// Dense ids of ops and tensors. Ordering by id is the total tie-break everywhere (contract 10).
#pragma once

#include "base/id.h"

namespace partita::graph {

using OpId = Id<struct OpTag>;
using TensorId = Id<struct TensorTag>;  ///< invalid: an optional operand that is left out

}  // namespace partita::graph
