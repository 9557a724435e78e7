// SPDX-License-Identifier: Apache-2.0
//
// Is an operand read evenly: do parts of the reader that hold some share of its positions read
// elements that are, at least, the same share of the operand, and do parts of its producer give
// them so?
//
//     yes   a result or operand dim is made of all positions of its factors, each once, or of none
//           a window over one factor moves along as fast as the operand is long: most convolutions with
//           padding, and pools
//     no    rows that are left unread (a stride beyond the kernel, a Slice), positions that are read from
//           several places (a Split's), what one part alone applies (a bias of a split reduction)
//
// Then positions of producer and reader can be drawn together, each equally likely, such that the
// reader reads what the producer gives: an element at random, and for a window output i of n with
// rows i / n to (i + 1) / n.
#pragma once

#include "graph/op_graph.h"
#include "plan/problem/problem.h"

namespace partita::search {

/// Does every part of the reader, however it is split, read anything of the operand, so that it
/// waits for who gives it? Not of an operand without elements, nor where an output lies in the
/// padding. Time: O(dims).
bool reads_in_all_parts(const plan::Problem& problem, graph::Use use);

/// Of an operand that an op gives. Time: O(dims, and for a window its outputs).
bool is_read_evenly(const plan::Problem& problem, graph::Use use);

}  // namespace partita::search
