// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/axis_role.h"

#include <algorithm>
#include <utility>

namespace partita::plan {

using graph::OpRule;
using graph::TensorRule;

namespace {

bool has_factor(const TensorRule& tensor, int factor, bool& windowed) {
    for (const graph::DimRule& dim : tensor.dims) {
        if (std::find(dim.factors.begin(), dim.factors.end(), factor) == dim.factors.end()) {
            continue;
        }
        windowed = windowed || dim.window.has_value();
        return true;
    }
    return false;
}

/// Is the operand the one, or one of those, that are partial along a summand axis?
bool is_partial_operand(const OpRule& rule, const Axis& axis, std::size_t index) {
    if (axis.operand >= 0) return static_cast<std::size_t>(axis.operand) == index;
    if (rule.additive) return rule.operands[index].linear;
    // Of the factors of a product exactly one is partial.
    const auto first = std::ranges::find(rule.operands, true, &TensorRule::linear);
    return std::cmp_equal(first - rule.operands.begin(), index);
}

}  // namespace

Role role_of(const OpRule& rule, const Axis& axis, Side side, std::size_t index) {
    if (axis.kind == Axis::Kind::replica || side == Side::result_gradient) return Role::shared;
    if (axis.kind == Axis::Kind::summand) {
        if (side == Side::result) return Role::addend;
        if (is_partial_operand(rule, axis, index)) {
            return side == Side::operand ? Role::addend : Role::shared;
        }
        // What is added beside the summands is added once; what selects (Where) everybody needs.
        const TensorRule& operand = rule.operands[index];
        if ((rule.additive && operand.linear) || operand.apply_once) return Role::first_only;
        return side == Side::operand ? Role::shared : Role::addend;
    }
    const graph::Factor& factor = rule.factors[static_cast<std::size_t>(axis.factor)];
    if (side == Side::result) return factor.reduction ? Role::addend : Role::shared;
    const TensorRule& tensor = rule.operands[index];
    bool windowed = false;
    if (has_factor(tensor, axis.factor, windowed)) {
        // Windows overlap: what two parts read gets a contribution of both.
        return side == Side::operand_gradient && windowed ? Role::addend : Role::shared;
    }
    if (tensor.apply_once && factor.reduction) return Role::first_only;
    return side == Side::operand_gradient ? Role::addend : Role::shared;
}

graph::Combine combine_of(const OpRule& rule, const Axis& axis, Side side) {
    const bool reduces = side == Side::result && axis.kind == Axis::Kind::factor;
    return reduces ? rule.factors[static_cast<std::size_t>(axis.factor)].combine
                   : graph::Combine::sum;
}

}  // namespace partita::plan
