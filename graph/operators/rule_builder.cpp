// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

const Shape kAbsentShape;

void set_dim(TensorRule& rule, int dim, DimRule value) {
    rule.dims[static_cast<std::size_t>(dim)] = std::move(value);
}

/// Calls `use(number, is_result)` for each word of "0 1 y0"; "all" names all operands.
template <class Use>
void for_each_number(std::string_view words, int operand_count, Use use) {
    if (words == "all") {
        for (int i = 0; i < operand_count; ++i) use(i, false);
        return;
    }
    const char* at = words.data();
    const char* const end = at + words.size();
    while (at != end) {
        if (*at == ' ') {
            ++at;
            continue;
        }
        const bool is_result = *at == 'y';
        if (is_result) ++at;
        int number = 0;
        at = std::from_chars(at, end, number).ptr;
        use(number, is_result);
    }
}

}  // namespace

std::string numbered(char letter, std::int64_t number) {
    std::string name(1, letter);
    return name.append(std::to_string(number));
}

RuleBuilder::RuleBuilder(const OpGraph& graph, const Op& op, const OpRow& row)
    : graph_(graph), op_(op), row_(row) {
    rule_.operands.resize(op.inputs.size());
    rule_.results.resize(op.outputs.size());
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        rule_.operands[i].dims.resize(shape(static_cast<int>(i)).size());
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        rule_.results[i].dims.resize(result_shape(static_cast<int>(i)).size());
    }
}

bool RuleBuilder::has_operand(int operand) const {
    return operand < operand_count() && op_.inputs[static_cast<std::size_t>(operand)].valid();
}

bool RuleBuilder::has_result(int result) const {
    return result < result_count() && op_.outputs[static_cast<std::size_t>(result)].valid();
}

const Shape& RuleBuilder::shape(int operand) const {
    if (!has_operand(operand)) return kAbsentShape;
    return graph_.tensor(op_.inputs[static_cast<std::size_t>(operand)]).shape;
}

const Shape& RuleBuilder::result_shape(int result) const {
    if (!has_result(result)) return kAbsentShape;
    return graph_.tensor(op_.outputs[static_cast<std::size_t>(result)]).shape;
}

int RuleBuilder::result_rank(int result) const {
    return static_cast<int>(result_shape(result).size());
}

std::optional<std::vector<std::int64_t>> RuleBuilder::integers(int operand) const {
    if (!has_operand(operand)) return std::nullopt;
    return graph_.tensor(op_.inputs[static_cast<std::size_t>(operand)]).known_integers;
}

std::optional<std::vector<std::int64_t>> RuleBuilder::integers(std::string_view attribute,
                                                               int operand) const {
    if (op_.attributes.find(attribute) != nullptr) return op_.attributes.get_ints(attribute);
    return integers(operand);
}

bool RuleBuilder::opset_before(int version) const {
    return op_.opset > 0 && op_.opset < version;
}

int RuleBuilder::axis(std::int64_t axis, int rank) const {
    if (axis < -rank || axis >= rank) {
        fail(fmt::format("expected an axis in [-{0}, {0}), got {1}", rank, axis));
    }
    return static_cast<int>(axis < 0 ? axis + rank : axis);
}

void RuleBuilder::expect_rank(int operand, int expected) const {
    if (rank(operand) == expected) return;
    fail(fmt::format("operand {}: expected {} dims, got shape [{}]", operand, expected,
                     fmt::join(shape(operand), " ")));
}

void RuleBuilder::expect_result_rank(int result, int expected) const {
    if (has_result(result) && result_rank(result) == expected) return;
    fail(fmt::format("result {}: expected {} dims, got {}", result, expected,
                     has_result(result)
                         ? fmt::format("shape [{}]", fmt::join(result_shape(result), " "))
                         : std::string("none")));
}

int RuleBuilder::add(std::string name, std::int64_t extent, bool splittable) {
    rule_.factors.push_back({.name = std::move(name), .extent = extent, .splittable = splittable});
    return static_cast<int>(rule_.factors.size()) - 1;
}

std::vector<int> RuleBuilder::add_dims(const Shape& extents) {
    std::vector<int> factors;
    factors.reserve(extents.size());
    for (std::size_t i = 0; i < extents.size(); ++i) {
        factors.push_back(add(numbered('d', i), extents[i]));
    }
    return factors;
}

TensorRule& RuleBuilder::operand(int index) {
    return rule_.operands[static_cast<std::size_t>(index)];
}

std::int64_t RuleBuilder::product(const std::vector<int>& factors) const {
    std::int64_t extent = 1;
    for (const int f : factors) {
        extent = checked_product(extent, rule_.factors[static_cast<std::size_t>(f)].extent);
    }
    return extent;
}

void RuleBuilder::operand(int operand, int dim, std::vector<int> factors) {
    if (!has_operand(operand) || factors.empty()) return;
    const Shape& extents = shape(operand);
    const std::int64_t expected = product(factors);
    if (dim < 0 || dim >= rank(operand)) {
        fail(fmt::format("operand {}: expected more than {} dims, got shape [{}]", operand, dim,
                         fmt::join(extents, " ")));
    }
    const std::int64_t extent = extents[static_cast<std::size_t>(dim)];
    if (extent == expected) {
        set_dim(this->operand(operand), dim, {std::move(factors), std::nullopt});
    } else if (extent != 1) {
        fail(fmt::format("operand {}, dim {}: expected extent {}, got shape [{}]", operand, dim,
                         expected, fmt::join(extents, " ")));
    }
}

void RuleBuilder::result(int result, int dim, std::vector<int> factors) {
    if (!has_result(result) || factors.empty()) return;
    const Shape& extents = result_shape(result);
    const std::int64_t expected = product(factors);
    if (dim < 0 || dim >= result_rank(result) ||
        extents[static_cast<std::size_t>(dim)] != expected) {
        fail(fmt::format("result {}, dim {}: expected extent {}, got shape [{}]", result, dim,
                         expected, fmt::join(extents, " ")));
    }
    set_dim(rule_.results[static_cast<std::size_t>(result)], dim,
            {std::move(factors), std::nullopt});
}

void RuleBuilder::window(int operand, int dim, int factor, const Window& window) {
    if (!has_operand(operand)) return;
    set_dim(this->operand(operand), dim, {{factor}, window});
}

void RuleBuilder::rotate(int operand, int dim, std::int64_t by) {
    if (has_operand(operand)) {
        this->operand(operand).dims[static_cast<std::size_t>(dim)].rotation = by;
    }
}

void RuleBuilder::broadcast(int operand, const std::vector<std::vector<int>>& factors) {
    const std::size_t dims = shape(operand).size();
    if (dims > factors.size()) expect_rank(operand, static_cast<int>(factors.size()));
    for (std::size_t dim = 0; dim < dims; ++dim) {
        this->operand(operand, static_cast<int>(dim), factors[dim + factors.size() - dims]);
    }
}

Flops RuleBuilder::points() const {
    Flops product(1);
    for (const Factor& factor : rule_.factors) product = factor.extent * product;
    return product;
}

void RuleBuilder::fail(const std::string& what) const {
    throw InputError(fmt::format("{}{}node '{}' ({}), {}. Correct the model or export it again.",
                                 graph_.name, graph_.name.empty() ? "" : ": ", op_.name, op_.type,
                                 what));
}

// Parts of a factor that one result has and another lacks would all compute the other: each would
// send it a gradient, and all of these would be added up. No layout of ours says otherwise.
void RuleBuilder::keep_redundant_factors_whole() {
    for (int i = 0; i < result_count(); ++i) {
        if (!has_result(i)) continue;
        std::vector<char> has_factor(rule_.factors.size(), 0);
        for (const DimRule& dim : rule_.results[static_cast<std::size_t>(i)].dims) {
            for (const int f : dim.factors) has_factor[static_cast<std::size_t>(f)] = 1;
        }
        for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
            Factor& factor = rule_.factors[f];
            if (factor.reduction || factor.extent < 2) continue;
            if (has_factor[f] == 0) factor.splittable = false;
        }
    }
}

OpRule RuleBuilder::finish() {
    std::vector<char> in_result(rule_.factors.size(), 0);
    for (const TensorRule& result : rule_.results) {
        for (const DimRule& dim : result.dims) {
            for (const int f : dim.factors) in_result[static_cast<std::size_t>(f)] = 1;
        }
    }
    for (std::size_t f = 0; f < rule_.factors.size(); ++f) {
        Factor& factor = rule_.factors[f];
        factor.reduction = in_result[f] == 0;
        if (!factor.reduction) continue;
        if (row_.combine == Combine::none) factor.splittable = false;
        factor.combine = factor.splittable ? row_.combine : Combine::none;
    }
    keep_redundant_factors_whole();
    for_each_number(row_.linear, operand_count(), [this](int i, bool) {
        if (i < operand_count()) operand(i).linear = true;
    });
    for_each_number(row_.saves, operand_count(), [this](int i, bool is_result) {
        (is_result ? rule_.saves_results : rule_.saves_operands) |= std::uint64_t{1}
                                                                    << std::min(i, 63);
    });
    rule_.additive = row_.additive;
    rule_.matrix_product = row_.matrix_product;
    rule_.alias = row_.alias;
    rule_.flops = flops_                      ? *flops_
                  : row_.flops_per_point == 0 ? Flops(0)
                                              : row_.flops_per_point * points();
    return std::move(rule_);
}

}  // namespace partita::graph
