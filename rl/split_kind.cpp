// SPDX-License-Identifier: Apache-2.0
#include "rl/split_kind.h"

#include <algorithm>

namespace partita::rl {

using graph::OpId;
using graph::OpKind;
using plan::Problem;

namespace {

bool reads_parameter_along(const Problem& problem, OpId op, int factor) {
    const graph::OpRule& rule = problem.facts().rule(op);
    const std::vector<graph::TensorId>& inputs = problem.graph().op(op).inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!inputs[i].valid()) continue;
        const OpId producer = problem.graph().tensor(inputs[i]).producer;
        if (problem.graph().op(producer).kind != OpKind::parameter) continue;
        for (const graph::DimRule& dim : rule.operands[i].dims) {
            if (std::ranges::find(dim.factors, factor) != dim.factors.end()) return true;
        }
    }
    return false;
}

/// As graph/operators/soap.h has it, but that a weight is a parameter itself, and not what was made
/// of one.
AxisClass class_of(const Problem& problem, OpId op, const plan::Axis& axis) {
    if (axis.is_replica()) return AxisClass::replica;
    if (axis.is_summand()) return AxisClass::reduction;
    const auto f = static_cast<std::size_t>(axis.factor);
    if (problem.facts().batch_digits(op)[f].extent > 0) return AxisClass::sample;
    if (problem.facts().rule(op).factors[f].reduction) return AxisClass::reduction;
    return reads_parameter_along(problem, op, axis.factor) ? AxisClass::parameter
                                                           : AxisClass::attribute;
}

}  // namespace

Kind kind_of(const Problem& problem, OpId op, const std::vector<plan::Axis>& axes) {
    Kind kind;
    for (std::size_t i = 0; i < std::min(axes.size(), kind.axes.size()); ++i) {
        kind.axes[i] = class_of(problem, op, axes[i]);
    }
    return kind;
}

/// How unlike two kinds are; 0: the same.
int distance(const Kind& a, const Kind& b) {
    constexpr int kAxis = 4;
    const int major = a.axes[0] == b.axes[0] ? 0 : 2 * kAxis;
    const int minor = a.axes[1] == b.axes[1] ? 0 : kAxis;
    return major + minor + (a.ordinal == b.ordinal ? 0 : 1);
}

}  // namespace partita::rl
