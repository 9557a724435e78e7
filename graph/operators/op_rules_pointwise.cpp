// SPDX-License-Identifier: Apache-2.0
//
// Nearly pointwise ops, whose rule depends on an attribute.
#include <algorithm>
#include <cstdint>
#include <vector>

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

namespace {

/// What the backward of a body reads of its values.
class BackwardReads {
public:
    /// `trained`: of each input, may it have a gradient?
    BackwardReads(const OpGraph& body, const std::vector<char>& trained)
        : body_(body), has_gradient_(body.tensor_count(), 0), read_(body.tensor_count(), 0) {
        std::size_t input = 0;
        for (const Op& op : body.ops()) {
            if (op.kind == OpKind::input) {
                inputs_.push_back(op.outputs[0]);
                has_gradient_[op.outputs[0].index()] = trained[input++];
            } else if (op.kind == OpKind::compute) {
                const std::vector<char> gradients = gradients_of(op);
                const bool any = std::ranges::find(gradients, 1) != gradients.end();
                has_gradient_[op.outputs[0].index()] = any ? 1 : 0;
            }
        }
        for (std::size_t i = body.op_count(); i-- > 0;) {
            if (body.ops()[i].kind == OpKind::compute) look_at(OpId(i));
        }
    }

    /// Bit i: input i.
    [[nodiscard]] std::uint64_t of_inputs() const {
        std::uint64_t bits = 0;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            const bool read = read_[inputs_[i].index()] != 0;
            if (read) bits |= std::uint64_t{1} << std::min<std::size_t>(i, 63);
        }
        return bits;
    }

private:
    /// Which operands have one?
    [[nodiscard]] std::vector<char> gradients_of(const Op& op) const {
        std::vector<char> gradients;
        for (const TensorId t : op.inputs) {
            gradients.push_back(t.valid() ? has_gradient_[t.index()] : char{0});
        }
        return gradients;
    }

    /// Its own backward, and what computes its result once more for that of a reader.
    void look_at(OpId id) {
        const Op& op = body_.op(id);
        const std::vector<char> gradients = gradients_of(op);
        const OpRule rule = rule_of(body_, id);
        const std::size_t result = op.outputs[0].index();
        const bool again =
            read_[result] != 0 || (has_gradient_[result] != 0 && rule.saves_result(0));
        for (std::size_t i = 0; i < op.inputs.size(); ++i) {
            const TensorId t = op.inputs[i];
            if (!t.valid()) continue;
            if (again || rule.saves_operand(i, gradients)) read_[t.index()] = 1;
        }
    }

    const OpGraph& body_;
    std::vector<TensorId> inputs_;
    std::vector<char> has_gradient_;
    std::vector<char> read_;
};

}  // namespace

// Several pointwise ops in one kernel, its body: what they hand each other is neither kept nor moved,
// and the backward computes it once more from the operands.
OpRule pointwise_kernel_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const OpGraph& body = *op.bodies.front().graph;
    std::vector<std::vector<int>> dims;
    for (const int factor : b.add_dims(b.result_shape(0))) dims.push_back({factor});
    for (int i = 0; i < b.operand_count(); ++i) b.broadcast(i, dims);
    for (int dim = 0; dim < b.result_rank(0); ++dim) b.result(0, dim, dims[std::size_t(dim)]);
    Flops flops;
    for (const OpRule& inner : rules_of(body)) flops += inner.flops;
    b.set_flops(flops);
    OpRule rule = b.finish();
    std::vector<char> trained;
    for (const TensorId t : op.inputs) {
        trained.push_back(graph.tensor(t).role == TensorRole::constant ? 0 : 1);
    }
    rule.saves_operands = BackwardReads(body, trained).of_inputs();
    return rule;
}

}  // namespace partita::graph
