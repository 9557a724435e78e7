// SPDX-License-Identifier: Apache-2.0
#include "rl/split_kind.h"

#include <algorithm>
#include <string_view>

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
AxisClass class_of(const Problem& problem, OpId op, std::string_view factor) {
    if (factor == "*") return AxisClass::replica;
    const std::string_view name = factor.substr(0, factor.find('/'));  // "n/3": in blocks
    const std::vector<graph::Factor>& factors = problem.facts().rule(op).factors;
    const auto at = std::ranges::find(factors, name, &graph::Factor::name);
    if (at == factors.end()) return AxisClass::reduction;  // "+"
    const auto f = static_cast<std::size_t>(at - factors.begin());
    if (problem.facts().batch_digits(op)[f].extent > 0) return AxisClass::sample;
    if (at->reduction) return AxisClass::reduction;
    return reads_parameter_along(problem, op, static_cast<int>(f)) ? AxisClass::parameter
                                                                   : AxisClass::attribute;
}

}  // namespace

Kind kind_of(const Problem& problem, OpId op, const std::vector<plan::FactorDegree>& degrees) {
    Kind kind;
    for (std::size_t i = 0; i < std::min(degrees.size(), kind.axes.size()); ++i) {
        kind.axes[i] = class_of(problem, op, degrees[i].factor);
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
