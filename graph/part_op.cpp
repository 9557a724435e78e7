// SPDX-License-Identifier: Apache-2.0
#include "graph/part_op.h"

#include <cassert>

#include "graph/op_table.h"
#include "graph/part_builder.h"

namespace partita::graph {

PartOp part_op(const OpGraph& graph, OpId id, const OpRule& rule, const Box& box) {
    const Op& op = graph.op(id);
    assert(op.kind == OpKind::compute && box.size() == rule.factors.size());
    PartBuilder builder(graph, op, rule, box);
    const OpRow* row = rule.conservative ? nullptr : find_row(op.domain, op.type);
    if (row != nullptr && row->part != nullptr) row->part(builder);
    return builder.finish();
}

}  // namespace partita::graph
