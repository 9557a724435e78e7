// SPDX-License-Identifier: Apache-2.0
//
// The plan as Shardy's sdy dialect says it: an MLIR module with meshes and the sharding of every
// op's results; an sdy.reshard where an operand is needed otherwise than it lies.
//
//     MatMul y[m n] = x[m k] w[k n], (m 2)(k 2) on devices 0-3
//
//     sdy.mesh @mesh_0 = <["a"=2, "b"=2]>           x   #sdy.sharding<@mesh_0, [{"a"}, {"b"}]>
//                                                   w   #sdy.sharding<@mesh_0, [{"b"}, {}]>
//                                                   y   ... [{"a"}, {}], unreduced={"b"}>
//
// Devices in one order make one mesh, whatever the degrees of the ops on them. Its axes are cut
// where that suits every op; ops that are cut elsewhere name sub-axes, "a":(1)2. One device is a
// maximal mesh. Ops are opaque ("onnx.MatMul"), so a reader must allow unregistered dialects.
//
// What no sharding says is left open and a comment says why: sums alone can be unreduced, parts are
// ceil(extent / product of the axes), and halos have no word.
//
// Source: "Sharding representation", attributes and tests of the sdy dialect, the OpenXLA project.
#pragma once

#include <string>

#include "plan/exporters/exporter.h"

namespace partita::plan {

std::string shardy(const ExportInput& input);

}  // namespace partita::plan
