// SPDX-License-Identifier: Apache-2.0
//
// The plan as PyTorch's DTensor says it: JSON with device meshes and, per operand and result of
// every op, one placement per mesh dim.
//
//     MatMul y[m n] = x[m k] w[k n], (m 2)(k 2) on devices 0-3     mesh [2 2] of ranks 0 1 2 3
//
//     x   Shard(0)     Shard(1)          rank = device of the machine; mesh dims are the degrees
//     w   Replicate()  Shard(0)          of the op, major to minor
//     y   Shard(0)     Partial('sum')
//
// A layout that has no placements says why in `not_expressible`. Uneven parts agree: DTensor cuts
// with torch.chunk, ceil(extent / degree) first, and splits of a split are cut in turn, as here.
//
// Source: torch.distributed.tensor (Shard, Replicate, Partial), PyTorch 2.
#pragma once

#include <string>

#include "plan/exporters/exporter.h"

namespace partita::plan {

std::string dtensor(const ExportInput& input);

}  // namespace partita::plan
