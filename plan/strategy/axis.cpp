// SPDX-License-Identifier: Apache-2.0
#include "plan/strategy/axis.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

namespace partita::plan {

using graph::OpRule;
using graph::TensorRule;

namespace {

bool is_in(const TensorRule& tensor, int factor) {
    return std::any_of(tensor.dims.begin(), tensor.dims.end(), [factor](const graph::DimRule& dim) {
        return std::find(dim.factors.begin(), dim.factors.end(), factor) != dim.factors.end();
    });
}

/// Parts of blocks have holes. No operator has a window with holes (graph/operators/part_op.h), some
/// factors may have none; and of a reduction over one operand alone, such as the rows that indices
/// select, nothing would follow from them.
bool may_have_blocks(const OpRule& rule, int factor) {
    if (rule.factors[static_cast<std::size_t>(factor)].contiguous) return false;
    int operands = 0;
    for (const TensorRule& operand : rule.operands) {
        operands += is_in(operand, factor) ? 1 : 0;
        for (const graph::DimRule& dim : operand.dims) {
            if (dim.window && dim.factors.front() == factor) return false;
        }
    }
    return operands > 1 ||
           std::any_of(rule.results.begin(), rule.results.end(),
                       [factor](const TensorRule& result) { return is_in(result, factor); });
}

bool has_factor(const OpRule& rule, const Axis& axis) {
    if (axis.factor < 0 || std::cmp_greater_equal(axis.factor, rule.factors.size())) return false;
    if (axis.blocks == 1) return true;
    const std::int64_t extent = rule.factors[static_cast<std::size_t>(axis.factor)].extent;
    return axis.blocks > 1 && extent % axis.blocks == 0 && may_have_blocks(rule, axis.factor);
}

bool has_summands(const OpRule& rule, const Axis& axis) {
    if (axis.operand < 0) {
        return std::any_of(rule.operands.begin(), rule.operands.end(),
                           [](const TensorRule& operand) { return operand.linear; });
    }
    return std::cmp_less(axis.operand, rule.operands.size()) &&
           rule.operands[static_cast<std::size_t>(axis.operand)].linear;
}

/// The whole of `text` as a number.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
    Number number{};
    const char* begin = text.data();
    const char* end = begin + text.size();
    const auto [rest, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || rest != end) return std::nullopt;
    return number;
}

/// "+" or "+1".
std::optional<Axis> summands_named(std::string_view name, int degree) {
    if (name.size() == 1) return Axis::summands(degree);
    const auto operand = number_of<std::int32_t>(name.substr(1));
    if (!operand || *operand < 0) return std::nullopt;
    return Axis::summands(degree, *operand);
}

/// "n" or "n/3".
std::optional<Axis> factor_named(const OpRule& rule, std::string_view name, int degree) {
    const std::size_t slash = name.find('/');
    const auto factor =
        std::ranges::find(rule.factors, name.substr(0, slash), &graph::Factor::name);
    if (factor == rule.factors.end()) return std::nullopt;
    const auto index = factor - rule.factors.begin();
    if (slash == std::string_view::npos) return Axis::along(index, degree);
    const auto blocks = number_of<std::int64_t>(name.substr(slash + 1));
    if (!blocks || *blocks < 2) return std::nullopt;
    return Axis::along(index, degree, *blocks);
}

}  // namespace

bool has_axis(const OpRule& rule, const Axis& axis) {
    switch (axis.kind) {
    case Axis::Kind::replica: return true;
    case Axis::Kind::summand: return has_summands(rule, axis);
    case Axis::Kind::factor: return has_factor(rule, axis);
    }
    return false;
}

std::optional<Axis> axis_of(const OpRule& rule, std::string_view name, int degree) {
    if (name == "*") return Axis::replicas(degree);
    const auto axis =
        name.starts_with('+') ? summands_named(name, degree) : factor_named(rule, name, degree);
    return axis && has_axis(rule, *axis) ? axis : std::nullopt;
}

std::string name_of(const OpRule& rule, const Axis& axis) {
    if (axis.is_replica()) return "*";
    if (axis.is_summand()) return axis.operand < 0 ? "+" : "+" + std::to_string(axis.operand);
    const bool known = axis.factor >= 0 && std::cmp_less(axis.factor, rule.factors.size());
    std::string name = known ? rule.factors[static_cast<std::size_t>(axis.factor)].name
                             : "#" + std::to_string(axis.factor);
    if (axis.blocks != 1) name += "/" + std::to_string(axis.blocks);
    return name;
}

}  // namespace partita::plan
