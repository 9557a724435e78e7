// SPDX-License-Identifier: Apache-2.0
//
// Graphs of one op from a line of text, and rules as text, so that tests can be tables:
//
//     Gemm | 8,64 32,64 32 -> 8,32 | transB=1
//
// An operator of another domain than ONNX's is `domain:Type`.
// Shapes are lists of extents, `()` is a scalar, `_` an operand left out, `[0,2]` a list of known
// integers, `<3>` a known scalar. A leading letter is the dtype: `i` int64, `j` int32, `u` uint8,
// `c` int8, `b` boolean, `h` float16, `d` float64, `s` string; default float32. Attributes are
// `name=1`, `name=1,2` or `name=1,` (lists), `name="text"`.
#pragma once

#include <string>
#include <string_view>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"

namespace partita::graph::testing {

/// The op is the last one; the operands are inputs of the graph called x0, x1, ...
OpGraph graph_of(std::string_view example);
OpId last_op(const OpGraph& graph);

/// Builds the graph and returns the rule of its last op.
OpRule rule_of_example(std::string_view example);

/// Operands and results in letters, then what else the rule says:
///
///     m k, n k, n -> m n; reduce k sum; linear 0 1; once 2; flops 32768
///
/// A windowed dim is `h{2i-1..2i+1}`, with a divisor `h{(i-1..i+1)/2}`, a rotated one `(p+1 u)`.
/// `whole` lists factors that are not splittable and no reduction.
std::string text_of(const OpRule& rule);

/// What is wrong with a rule; empty when every dim's extent is the product of its factors' (or
/// windowed, or broadcast), and every factor is used as its flags say.
std::string complaint_about(const OpGraph& graph, OpId op, const OpRule& rule);

}  // namespace partita::graph::testing
