// SPDX-License-Identifier: Apache-2.0
//
// Reductions, and ops that read one axis whole: Softmax, CumSum, TopK, DFT, the losses.
#include <algorithm>
#include <optional>

#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

/// Which dims a Reduce* reduces; nothing when that depends on data.
std::optional<std::vector<bool>> reduced_dims(RuleBuilder& b) {
    constexpr int kAxes = 1;
    const std::size_t rank = b.shape(0).size();
    const bool has_axes = b.op().attributes.find("axes") != nullptr || b.has_operand(kAxes);
    std::vector<std::int64_t> axes;
    if (has_axes) {
        const auto known = b.integers("axes", kAxes);
        if (!known) return std::nullopt;
        axes = *known;
    }
    if (axes.empty()) {
        const bool is_noop = b.op().attributes.get_int("noop_with_empty_axes", 0) != 0;
        return std::vector<bool>(rank, !is_noop);
    }
    std::vector<bool> reduced(rank, false);
    for (const std::int64_t axis : axes) {
        reduced[static_cast<std::size_t>(b.axis(axis, static_cast<int>(rank)))] = true;
    }
    return reduced;
}

/// Operand dims become result dims, but for the reduced ones, which stay as 1 or go.
void set_reduced(RuleBuilder& b, const std::vector<bool>& reduced) {
    const bool keeps = b.op().attributes.get_int("keepdims", 1) != 0;
    int result_dim = 0;
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        if (!reduced[std::size_t(dim)]) {
            b.result(0, result_dim++, {factor});
        } else if (keeps) {
            ++result_dim;
        }
    }
    if (result_dim != b.result_rank(0)) b.fail("result 0: unexpected number of dims");
}

}  // namespace

OpRule reduce_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const auto reduced = reduced_dims(b);
    if (reduced) set_reduced(b, *reduced);
    OpRule rule = b.finish();
    // A backward knows axes that the graph knows; others it has to be given.
    if (!reduced) rule.saves_operands |= 0b10;
    const bool is_rounded = op.type == "ReduceMean" || op.type == "ReduceLogSumExp";
    if (!is_rounded || is_floating_point(graph.tensor(op.inputs[0]).dtype)) return rule;
    // Means and logarithms of parts are rounded to integers, and so do not combine.
    rule.operands[0].linear = false;
    for (Factor& factor : rule.factors) {
        if (!factor.reduction) continue;
        factor.splittable = false;
        factor.combine = Combine::none;
    }
    return rule;
}

// ArgMax, ArgMin: positions along the axis are the result, so it is read whole.
OpRule arg_reduce_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    std::vector<bool> reduced(b.shape(0).size(), false);
    reduced[std::size_t(b.axis(op.attributes.get_int("axis", 0), b.rank(0)))] = true;
    set_reduced(b, reduced);
    return b.finish();
}

namespace {

/// "... x ... -> ... x ...", the dims marked in `whole` read as a whole.
void set_pointwise(RuleBuilder& b, const std::vector<bool>& whole) {
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor =
            b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)], !whole[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        for (int result = 0; result < b.result_count(); ++result) b.result(result, dim, {factor});
    }
}

}  // namespace

// Softmax, LogSoftmax, Hardmax. Before opset 13 they flattened the dims from the axis on.
OpRule softmax_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const bool flattens = b.opset_before(13);
    std::vector<bool> whole(static_cast<std::size_t>(rank), false);
    if (rank > 0) {
        const int axis =
            b.axis(op.attributes.get_int("axis", flattens ? 1 : -1), flattens ? rank + 1 : rank);
        for (int dim = axis; dim < (flattens ? rank : axis + 1); ++dim) {
            whole[std::size_t(dim)] = true;
        }
    }
    set_pointwise(b, whole);
    return b.finish();
}

// CumSum, CumProd, LpNormalization: the axis is read whole, and everything while it is not known.
OpRule along_axis_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    std::vector<bool> whole(static_cast<std::size_t>(rank), false);
    if (b.has_operand(1)) {
        const auto axis = b.integers(1);
        if (axis && axis->size() == 1) {
            whole[std::size_t(b.axis(axis->front(), rank))] = true;
        } else {
            whole.assign(whole.size(), true);
        }
    } else {
        whole[std::size_t(b.axis(op.attributes.get_int("axis", -1), rank))] = true;
    }
    set_pointwise(b, whole);
    return b.finish();
}

// The axis is read whole; of the result's k values along it none belongs to a part.
OpRule top_k_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int axis = b.axis(op.attributes.get_int("axis", -1), b.rank(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        for (int result = 0; result < b.result_count() && dim != axis; ++result) {
            b.result(result, dim, {factor});
        }
    }
    return b.finish();
}

// The signal axis is read whole; the last dim holds real and imaginary parts.
OpRule dft_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    constexpr int kAxis = 2;
    const int rank = b.rank(0);
    b.expect_rank(0, b.result_rank(0));
    std::optional<int> axis;
    if (b.has_operand(kAxis)) {
        const auto known = b.integers(kAxis);
        if (!known || known->size() != 1) return b.finish();
        axis = b.axis(known->front(), rank);
    } else {
        axis = b.axis(op.attributes.get_int("axis", b.opset_before(20) ? 1 : -2), rank);
    }
    for (int dim = 0; dim < rank - 1; ++dim) {
        if (dim == *axis) continue;
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)]);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
    }
    return b.finish();
}

// NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss: scores [n c d], labels [n d], weights [c] ->
// loss (a scalar, or [n d]), log-probabilities [n c d]. Classes are read whole. A mean whose
// divisor depends on data (weights, an ignored class) has no parts that add up (RULES.md 9).
OpRule loss_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    if (b.rank(0) < 2) b.fail("operand 0: expected 2 dims or more");
    const std::string reduction = op.attributes.get_string("reduction", "mean");
    const bool adds_up = reduction == "none" || reduction == "sum" ||
                         (!b.has_operand(2) && op.attributes.find("ignore_index") == nullptr);
    for (int dim = 0; dim < b.rank(0); ++dim) {
        const std::string name = dim == 0 ? "n" : dim == 1 ? "c" : numbered('d', dim);
        const int factor = b.add(name, b.shape(0)[std::size_t(dim)], dim != 1 && adds_up);
        b.operand(0, dim, {factor});
        b.result(1, dim, {factor});
        if (dim == 1) {
            b.operand(2, 0, {factor});
            continue;
        }
        const int label_dim = dim == 0 ? 0 : dim - 1;
        b.operand(1, label_dim, {factor});
        if (reduction == "none") b.result(0, label_dim, {factor});
    }
    return b.finish();
}

}  // namespace partita::graph
