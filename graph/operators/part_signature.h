// SPDX-License-Identifier: Apache-2.0
//
// What a part of an op computes, as text, whichever part it is: parts with equal signatures do the
// same work, so that what one of them takes on a device, the others take too.
//
//     Conv.13 auto_pad="NOTSET" kernel_shape=3,3 pads=0,1,1,1 strides=1,1
//         (float32[8,64,29,56], float32[64,64,3,3], -) -> (float32[8,64,28,56])
//
// Regions enter by their extents, since a part's operands and results are packed. Where a part lies
// shows only in what it has to do: in its pads, or in a mask of rows (by their number, not by which
// they are).
//
// The family of a signature leaves out extents and what else changes with the size of a part:
// values of integer operands, pads, heads, groups. Works of one family differ in size alone, so
// that prices between those that were measured can be interpolated.
//
// Pure; any number of threads. Errors: none.
#pragma once

#include <string>

#include "graph/op_graph.h"
#include "graph/operators/part_op.h"

namespace partita::graph {

struct PartSignature {
    std::string family;
    std::string text;
    friend bool operator==(const PartSignature&, const PartSignature&) = default;
};

/// `part` is a part_op() of the op.
PartSignature part_signature(const OpGraph& graph, OpId op, const PartOp& part);

}  // namespace partita::graph
