// SPDX-License-Identifier: Apache-2.0
//
// Normalizations: dims that statistics are taken over are read whole.
#include <algorithm>

#include "graph/operators/op_rules.h"

namespace partita::graph {

// LayerNormalization, RMSNormalization: dims from the axis on are normalized; scale and bias
// broadcast to them; mean and inverse deviation keep them as dims of 1.
OpRule layer_norm_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const int axis = b.axis(op.attributes.get_int("axis", -1), rank);
    std::vector<std::vector<int>> dims;
    for (int dim = 0; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)], dim < axis);
        dims.push_back({factor});
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
        for (int statistic = 1; statistic < b.result_count() && dim < axis; ++statistic) {
            b.result(statistic, dim, {factor});
        }
    }
    for (int parameter = 1; parameter < b.operand_count(); ++parameter) {
        if (b.has_operand(parameter)) b.broadcast(parameter, dims);
    }
    return b.finish();
}

// "n (g c) ..., (g c), (g c) -> n (g c) ...". Before opset 21 the parameters were per group: (g).
OpRule group_norm_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const std::int64_t groups = op.attributes.get_int("num_groups", 1);
    if (rank < 2 || groups < 1 || b.shape(0)[1] % groups != 0) {
        b.fail("attribute 'num_groups': expected a divisor of the number of channels, got " +
               std::to_string(groups));
    }
    const int n = b.add("n", b.shape(0)[0]);
    const int g = b.add("g", groups);
    const int c = b.add("c", b.shape(0)[1] / groups, /*splittable=*/false);
    b.operand(0, 0, {n});
    b.operand(0, 1, {g, c});
    b.result(0, 0, {n});
    b.result(0, 1, {g, c});
    for (int dim = 2; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)],
                                 /*splittable=*/false);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
    }
    for (const int parameter : {1, 2}) {
        if (b.rank(parameter) != 1) continue;
        const bool per_group = b.shape(parameter)[0] == groups;
        b.operand(parameter, 0, per_group ? std::vector{g} : std::vector{g, c});
    }
    return b.finish();
}

// "n c ..., c, c, c, c -> n c ..., c, c, c, c"; while training, statistics are taken over n and
// the spatial dims, so these are read whole here; a policy may ask for statistics per part.
OpRule batch_norm_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const bool trains =
        op.attributes.get_int("training_mode", 0) != 0 || (b.opset_before(14) && b.has_result(1));
    // Before opset 9, `spatial` = 0 asked for statistics per element.
    if (rank < 2 || b.rank(1) != 1) return conservative_rule(graph, op);
    const int n = b.add("n", b.shape(0)[0], !trains);
    const int c = b.add("c", b.shape(0)[1]);
    b.operand(0, 0, {n});
    b.operand(0, 1, {c});
    b.result(0, 0, {n});
    b.result(0, 1, {c});
    for (int dim = 2; dim < rank; ++dim) {
        const int factor = b.add(numbered('d', dim), b.shape(0)[std::size_t(dim)], !trains);
        b.operand(0, dim, {factor});
        b.result(0, dim, {factor});
    }
    for (int parameter = 1; parameter < b.operand_count(); ++parameter) {
        b.operand(parameter, 0, {c});
    }
    for (int statistic = 1; statistic < b.result_count(); ++statistic) {
        b.result(statistic, 0, {c});
    }
    return b.finish();
}

// Statistics over the listed axes, by default over all but the channels.
OpRule mean_variance_norm_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    std::vector<std::int64_t> axes = op.attributes.get_ints("axes");
    if (axes.empty()) axes = {0, 2, 3};
    const std::vector<int> dims = b.add_dims(b.shape(0));
    for (int dim = 0; dim < b.rank(0); ++dim) {
        b.operand(0, dim, {dims[std::size_t(dim)]});
        b.result(0, dim, {dims[std::size_t(dim)]});
    }
    for (const std::int64_t axis : axes) {
        b.factor(dims[std::size_t(b.axis(axis, b.rank(0)))]).splittable = false;
    }
    return b.finish();
}

}  // namespace partita::graph
