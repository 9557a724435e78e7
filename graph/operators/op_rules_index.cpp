// SPDX-License-Identifier: Apache-2.0
//
// Ops that look up or replace elements by index. Rows that an index selects are a reduction of sum:
// a part that holds some rows masks the indices of all others and contributes zeros, which is how a
// row-split embedding works (RULES.md 5).
#include <algorithm>

#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

/// Rows of a table add up with zeros where they are numbers.
bool adds_up(const OpGraph& graph, const Op& op) {
    const DType dtype = graph.tensor(op.inputs[0]).dtype;
    return dtype != DType::string && dtype != DType::boolean && dtype != DType::undefined;
}

/// A lookup reads its indices and the elements they select: a table of 20 GB is not read for a
/// word.
OpRule priced_by_result(OpRule rule, const OpGraph& graph, const Op& op) {
    rule.bytes_moved = graph.tensor(op.inputs[1]).bytes() + 2 * graph.tensor(op.outputs[0]).bytes();
    return rule;
}

}  // namespace

// data [a x c], indices [i] -> [a i c], each of a, i and c any number of dims.
OpRule gather_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const int axis = b.axis(op.attributes.get_int("axis", 0), rank);
    const int index_rank = b.rank(1);
    for (int dim = 0; dim < axis; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
    }
    for (int dim = 0; dim < index_rank; ++dim) {
        const int factor = b.add(numbered('i', dim), b.shape(1)[std::size_t(dim)]);
        b.operand(1, dim, {factor});
        b.result(0, axis + dim, {factor});
    }
    b.operand(0, axis, {b.add("x", b.shape(0)[std::size_t(axis)], adds_up(graph, op))});
    for (int dim = axis + 1; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        b.result(0, dim - 1 + index_rank, {factor});
    }
    return priced_by_result(b.finish(), graph, op);
}

// data, indices and result of the same rank; off the axis, indices may cover only the first rows.
OpRule gather_elements_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    b.expect_rank(1, rank);
    const int axis = b.axis(op.attributes.get_int("axis", 0), rank);
    for (int dim = 0; dim < rank; ++dim) {
        const std::int64_t extent = b.shape(1)[std::size_t(dim)];
        const int factor = b.add(numbered('d', dim), extent);
        b.operand(1, dim, {factor});
        b.result(0, dim, {factor});
        if (dim == axis) {
            b.operand(0, dim, {b.add("x", b.shape(0)[std::size_t(dim)], adds_up(graph, op))});
        } else if (extent == b.shape(0)[std::size_t(dim)]) {
            b.operand(0, dim, {factor});
        } else {
            b.window(0, dim, factor, {});
        }
    }
    return priced_by_result(b.finish(), graph, op);
}

// data [b x c], indices [b i k] -> [b i c]: the last dim of indices selects in k dims x.
OpRule gather_nd_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const int index_rank = b.rank(1);
    if (rank < 1 || index_rank < 1) b.fail("expected operands of 1 dim or more");
    const std::int64_t batch_dims = op.attributes.get_int("batch_dims", 0);
    const std::int64_t selected_dims = b.shape(1).back();
    if (batch_dims < 0 || batch_dims >= index_rank || batch_dims > rank ||
        selected_dims > rank - batch_dims) {
        b.fail("attribute 'batch_dims': expected fewer dims than the operands have");
    }
    const int batch = static_cast<int>(batch_dims);
    const int selected = static_cast<int>(selected_dims);
    for (int dim = 0; dim < batch; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        b.operand(1, dim, {factor});
        b.result(0, dim, {factor});
    }
    for (int dim = batch; dim < index_rank - 1; ++dim) {
        const int factor = b.add(numbered('i', dim), b.shape(1)[std::size_t(dim)]);
        b.operand(1, dim, {factor});
        b.result(0, dim, {factor});
    }
    for (int dim = batch; dim < batch + selected; ++dim) {
        b.operand(0, dim, {b.add(numbered('x', dim), b.shape(0)[std::size_t(dim)])});
    }
    for (int dim = batch + selected; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        b.result(0, index_rank - 1 + dim - batch - selected, {factor});
    }
    return priced_by_result(b.finish(), graph, op);
}

// indices [i], depth, values -> [i] with a dim of `depth` classes inserted at the axis.
OpRule one_hot_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const int axis = b.axis(op.attributes.get_int("axis", -1), rank + 1);
    for (int dim = 0; dim < rank; ++dim) {
        const int factor = b.add(numbered('i', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        b.result(0, dim < axis ? dim : dim + 1, {factor});
    }
    return b.finish();
}

// data, indices, updates -> data with elements replaced along the axis, which is never split.
OpRule scatter_elements_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    b.expect_rank(1, rank);
    b.expect_rank(2, rank);
    const int axis = b.axis(op.attributes.get_int("axis", 0), rank);
    for (int dim = 0; dim < rank; ++dim) {
        const std::int64_t extent = b.shape(0)[std::size_t(dim)];
        // Rows that no update reaches are copied: a part cannot tell them by its own share.
        const bool is_shared = dim != axis && b.shape(1)[std::size_t(dim)] == extent;
        const int factor = b.add(numbered('d', dim), extent, is_shared);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
        if (!is_shared) continue;
        b.operand(1, dim, {factor});
        b.operand(2, dim, {factor});
    }
    return b.finish();
}

// data [x c], indices [i k], updates [i c] -> data; only c is split.
OpRule scatter_nd_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const int index_rank = b.rank(1);
    if (index_rank < 1) b.fail("operand 1: expected 1 dim or more");
    if (b.shape(1).back() > rank) b.fail("operand 1: expected its last dim to select in operand 0");
    const int selected = static_cast<int>(b.shape(1).back());
    b.expect_rank(2, index_rank - 1 + rank - selected);
    for (int dim = 0; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)], dim >= selected);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
        if (dim >= selected) b.operand(2, index_rank - 1 + dim - selected, {factor});
    }
    return b.finish();
}

// past, update, write indices [batch] -> past with rows replaced along the axis, never split.
OpRule tensor_scatter_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    b.expect_rank(1, rank);
    const int axis = b.axis(op.attributes.get_int("axis", -2), rank);
    for (int dim = 0; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)], dim != axis);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
        if (dim != axis) b.operand(1, dim, {factor});
        if (dim == 0) b.operand(2, 0, {factor});
    }
    return b.finish();
}

}  // namespace partita::graph
