// SPDX-License-Identifier: Apache-2.0
#include "plan/description/product_split.h"

#include <algorithm>

#include "graph/operators/op_rule.h"

namespace partita::plan {

namespace {

bool names_factor(const graph::TensorRule& tensor, int factor) {
    return std::ranges::any_of(tensor.dims, [&](const graph::DimRule& dim) {
        return std::ranges::find(dim.factors, factor) != dim.factors.end();
    });
}

}  // namespace

std::optional<std::size_t> weight_of(const Problem& problem, graph::OpId op) {
    const graph::Op& of = problem.graph().op(op);
    if (of.kind != graph::OpKind::compute || !problem.facts().rule(op).matrix_product)
        return std::nullopt;
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
        const graph::TensorId t = of.inputs[i];
        if (t.valid() && problem.facts().origins()[t.index()].weight) return i;
    }
    return std::nullopt;
}

int ProductSplit::*degree_of(const Problem& problem, graph::OpId op, const Axis& axis,
                             std::size_t weight) {
    if (axis.is_replica()) return &ProductSplit::replicas;
    if (axis.is_summand()) return &ProductSplit::rows;
    const graph::OpRule& rule = problem.facts().rule(op);
    const auto factor = static_cast<std::size_t>(axis.factor);
    if (problem.facts().batch_digits(op)[factor].extent > 0) return &ProductSplit::data;
    if (!names_factor(rule.operands[weight], axis.factor)) return &ProductSplit::context;
    if (rule.factors[factor].reduction) return &ProductSplit::rows;
    const std::size_t data = weight == 0 ? 1 : 0;
    return names_factor(rule.operands[data], axis.factor) ? &ProductSplit::experts
                                                          : &ProductSplit::columns;
}

}  // namespace partita::plan
