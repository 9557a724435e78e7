// SPDX-License-Identifier: Apache-2.0
//
// Nearly pointwise ops, whose rule depends on an attribute.
#include <algorithm>

#include "graph/operators/op_rules.h"

namespace partita::graph {

// "... -> ...", linear between floating-point types of 16 bits or more: rounding to integers does
// not add up, and to 8 bits hardly (or not at all: one such type has no negative numbers).
OpRule cast_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const std::vector<int> dims = b.add_dims(b.result_shape(0));
    b.expect_rank(0, b.result_rank(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        b.operand(0, dim, {dims[std::size_t(dim)]});
        b.result(0, dim, {dims[std::size_t(dim)]});
    }
    OpRule rule = b.finish();
    const auto is_wide = [&graph](TensorId id) {
        const DType dtype = graph.tensor(id).dtype;
        return is_floating_point(dtype) && bits_of(dtype) >= 16;
    };
    rule.operands[0].linear = is_wide(op.inputs[0]) && is_wide(op.outputs[0]);
    return rule;
}

// "... x, scale, zero -> ... x": scale and zero point are scalars, [axis], or blocks of the
// operand.
OpRule quantize_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const std::vector<int> dims = b.add_dims(b.shape(0));
    for (int dim = 0; dim < rank; ++dim) {
        b.operand(0, dim, {dims[std::size_t(dim)]});
        b.result(0, dim, {dims[std::size_t(dim)]});
    }
    const auto set_parameter = [&](int operand) {
        if (b.rank(operand) == 1 && rank >= 1 && b.shape(operand)[0] != 1) {
            const int axis = b.axis(op.attributes.get_int("axis", 1), rank);
            b.operand(operand, 0, {dims[std::size_t(axis)]});
            return;
        }
        if (b.rank(operand) != rank) return;
        for (int dim = 0; dim < rank; ++dim) {
            const std::int64_t extent = b.shape(operand)[std::size_t(dim)];
            if (extent == b.shape(0)[std::size_t(dim)]) {
                b.operand(operand, dim, {dims[std::size_t(dim)]});
            } else {
                b.factor(dims[std::size_t(dim)]).splittable = false;  // a part would cut a block
            }
        }
    };
    set_parameter(1);
    set_parameter(2);
    return b.finish();
}

// Batch and time stand where the attributes say; time is read whole.
OpRule reverse_sequence_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const std::vector<int> dims = b.add_dims(b.shape(0));
    for (int dim = 0; dim < rank; ++dim) {
        b.operand(0, dim, {dims[std::size_t(dim)]});
        b.result(0, dim, {dims[std::size_t(dim)]});
    }
    const int time = b.axis(op.attributes.get_int("time_axis", 0), rank);
    const int batch = b.axis(op.attributes.get_int("batch_axis", 1), rank);
    b.factor(dims[std::size_t(time)]).splittable = false;
    b.operand(1, 0, {dims[std::size_t(batch)]});
    return b.finish();
}

// The diagonal belongs to the positions of the last two dims.
OpRule trilu_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const std::vector<int> dims = b.add_dims(b.shape(0));
    for (int dim = 0; dim < rank; ++dim) {
        b.operand(0, dim, {dims[std::size_t(dim)]});
        b.result(0, dim, {dims[std::size_t(dim)]});
        b.factor(dims[std::size_t(dim)]).splittable = dim < rank - 2;
    }
    return b.finish();
}

}  // namespace partita::graph
