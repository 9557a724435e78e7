// SPDX-License-Identifier: Apache-2.0
#include "graph/operators/part_op.h"

#include <algorithm>
#include <cassert>

#include "graph/operators/op_table.h"
#include "graph/operators/part_builder.h"

namespace partita::graph {

namespace {

/// Extents that depend on data are known when the op runs: what it was given as a target then
/// counts.
bool has_bounded_result(const OpGraph& graph, const Op& op) {
    return std::any_of(op.outputs.begin(), op.outputs.end(), [&graph](TensorId t) {
        return t.valid() && graph.tensor(t).upper_bound_dims != 0;
    });
}

}  // namespace

PartOp part_op(const OpGraph& graph, OpId id, const OpRule& rule, const Box& box) {
    const Op& op = graph.op(id);
    assert(op.kind == OpKind::compute && box.size() == rule.factors.size());
    PartBuilder builder(graph, op, rule, box);
    const OpRow* row = rule.conservative ? nullptr : find_row(op.domain, op.type);
    const bool is_op_itself = has_bounded_result(graph, op) && box == whole_box(rule);
    if (row != nullptr && row->part != nullptr && !is_op_itself) row->part(builder);
    return builder.finish();
}

}  // namespace partita::graph
