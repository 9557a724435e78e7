// SPDX-License-Identifier: Apache-2.0
#include "tests/plan/lowering/op_meaning.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace partita::plan {

using graph::Combine;
using graph::OpRule;
using graph::Range;

std::int64_t modulo(std::int64_t value) {
    return (value % kPrime + kPrime) % kPrime;
}

namespace {

/// By Fermat: value^(prime - 2).
std::int64_t inverse(std::int64_t value) {
    if (value == 0) throw std::logic_error("a product with a factor 0 has no such derivative");
    std::int64_t result = 1;
    for (std::int64_t power = kPrime - 2; power > 0; power /= 2) {
        if (power % 2 == 1) result = modulo(result * value);
        value = modulo(value * value);
    }
    return result;
}

/// The elements of a tensor that one point of an op's loop nest touches.
std::vector<std::size_t> elements_at(const OpRule& rule, const graph::TensorRule& tensor,
                                     const graph::Shape& shape,
                                     const std::vector<std::int64_t>& point) {
    std::vector<std::size_t> elements{0};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const graph::DimRule& dim = tensor.dims[d];
        Range range{0, shape[d]};
        if (dim.window) {
            const std::int64_t i = point[static_cast<std::size_t>(dim.factors[0])];
            range = operand_range(*dim.window, {i, i + 1}, shape[d]);
        } else if (!dim.factors.empty()) {
            std::int64_t i = 0;
            std::int64_t by = dim.rotation.value_or(0);
            for (const int f : dim.factors) {
                const std::int64_t extent = rule.factors[static_cast<std::size_t>(f)].extent;
                i = i * extent + (point[static_cast<std::size_t>(f)] + by) % extent;
                by = 0;
            }
            range = {i, i + 1};
        }
        std::vector<std::size_t> next;
        for (const std::size_t element : elements) {
            for (std::int64_t i = range.begin; i < range.end; ++i) {
                next.push_back(element * static_cast<std::size_t>(shape[d]) +
                               static_cast<std::size_t>(i));
            }
        }
        elements = std::move(next);
    }
    return elements;
}

void for_each_point(const graph::Box& box, std::vector<std::int64_t>& point,
                    const std::function<void()>& visit, std::size_t f = 0) {
    if (f == box.size()) {
        visit();
        return;
    }
    for (const Range range : box[f]) {
        for (std::int64_t i = range.begin; i < range.end; ++i) {
            point[f] = i;
            for_each_point(box, point, visit, f + 1);
        }
    }
}

}  // namespace

Combine OpMeaning::reduction() const {
    for (const graph::Factor& factor : rule_.factors) {
        if (factor.reduction && factor.combine != Combine::none) return factor.combine;
    }
    return Combine::sum;
}

std::int64_t OpMeaning::weight(std::size_t element) const {
    if (plain_ || reduction() != Combine::sum) return 1;
    return 1 + static_cast<std::int64_t>(element % 7);
}

std::vector<std::size_t> OpMeaning::result_elements(std::size_t r, const Point& point) const {
    return elements_at(rule_, rule_.results[r], graph_.tensor(op_.outputs[r]).shape, point);
}

std::vector<OpMeaning::Operand> OpMeaning::operands_at(
    const Point& point, const std::vector<SparseValue>& values) const {
    std::vector<Operand> operands(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
        Operand& operand = operands[i];
        if (!op_.inputs[i].valid()) {
            operand.sum = 1;
            continue;
        }
        operand.elements =
            elements_at(rule_, rule_.operands[i], graph_.tensor(op_.inputs[i]).shape, point);
        operand.present = std::any_of(values[i].known.begin(), values[i].known.end(),
                                      [](char known) { return known != 0; });
        if (!operand.present) {
            const bool may_lack = rule_.additive || rule_.operands[i].apply_once;
            if (!may_lack && !operand.elements.empty()) {
                throw std::logic_error("lacks operand " + std::to_string(i));
            }
            continue;
        }
        for (const std::size_t e : operand.elements) {
            if (!values[i].knows(e)) {
                throw std::logic_error("lacks element " + std::to_string(e) + " of operand " +
                                       std::to_string(i));
            }
            const std::int64_t x = values[i].data[e];
            operand.sum = modulo(operand.sum + (is_square(i) ? x * x : x));
        }
    }
    return operands;
}

/// Of those that multiply with the operand.
std::int64_t OpMeaning::product_of_others(const std::vector<Operand>& operands,
                                          std::size_t operand) const {
    std::int64_t product = 1;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        const bool added = rule_.operands[i].apply_once ||
                           (rule_.additive && (rule_.operands[i].linear || !op_.inputs[i].valid()));
        if (i != operand && !added) product = modulo(product * operands[i].sum);
    }
    return product;
}

std::int64_t OpMeaning::value_at(const std::vector<Operand>& operands, const Point& point,
                                 std::vector<std::int64_t>& slope) const {
    bool first = true;
    for (std::size_t f = 0; f < point.size(); ++f) {
        first = first && !(rule_.factors[f].reduction && point[f] != 0);
    }
    slope.assign(operands.size(), 0);
    std::int64_t added = 0;  // linear operands of an additive op
    std::int64_t once = 0;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!operands[i].present) continue;
        if (rule_.operands[i].apply_once) {
            slope[i] = first ? 1 : 0;
            once = modulo(once + slope[i] * operands[i].sum);
            continue;
        }
        slope[i] = product_of_others(operands, i);
        if (rule_.additive && rule_.operands[i].linear) added = modulo(added + operands[i].sum);
    }
    constexpr auto kNobody = static_cast<std::size_t>(-1);
    const std::int64_t product = product_of_others(operands, kNobody);
    if (!rule_.additive) return modulo(once + product);
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!rule_.operands[i].linear) slope[i] = modulo(slope[i] * added);
    }
    return modulo(once + added * product);
}

std::vector<SparseValue> OpMeaning::forward(const graph::Box& box,
                                            const std::vector<SparseValue>& operands) const {
    std::vector<SparseValue> results;
    for (const graph::TensorId t : op_.outputs) {
        results.push_back(unknown(graph_.tensor(t).shape));
    }
    const Combine combine = reduction();
    Point point(rule_.factors.size());
    std::vector<std::int64_t> slope;
    for_each_point(box, point, [&] {
        const std::int64_t value = value_at(operands_at(point, operands), point, slope);
        for (std::size_t r = 0; r < results.size(); ++r) {
            for (const std::size_t e : result_elements(r, point)) {
                const std::int64_t own = modulo(value * weight(e));
                const bool more = results[r].knows(e);
                results[r].set(e, more ? modulo(combined(combine, results[r].data[e], own)) : own);
            }
        }
    });
    return results;
}

std::vector<SparseValue> OpMeaning::backward(const graph::Box& box,
                                             const std::vector<SparseValue>& operands,
                                             const std::vector<SparseValue>& results,
                                             const std::vector<SparseValue>& upstream) const {
    std::vector<SparseValue> gradients;
    for (const graph::TensorId t : op_.inputs) {
        gradients.push_back(t.valid() ? unknown(graph_.tensor(t).shape) : SparseValue{});
    }
    const Combine combine = reduction();
    const auto share = [&](std::int64_t value, std::size_t r, std::size_t e) -> std::int64_t {
        if (combine == Combine::sum) return weight(e);
        if (!results[r].knows(e)) throw std::logic_error("lacks its combined result");
        const std::int64_t whole = results[r].data[e];
        const bool divides = combine == Combine::product || combine == Combine::log_sum_exp;
        if (divides) return modulo(whole * inverse(value));
        return value == whole ? 1 : 0;
    };
    Point point(rule_.factors.size());
    std::vector<std::int64_t> slope;
    for_each_point(box, point, [&] {
        const std::vector<Operand> at = operands_at(point, operands);
        const std::int64_t value = value_at(at, point, slope);
        std::int64_t up = 0;
        for (std::size_t r = 0; r < upstream.size(); ++r) {
            if (upstream[r].data.empty()) continue;  // nobody asks for its gradient
            for (const std::size_t e : result_elements(r, point)) {
                if (!upstream[r].knows(e)) throw std::logic_error("lacks a gradient of its result");
                up = modulo(up + upstream[r].data[e] * share(value, r, e));
            }
        }
        for (std::size_t i = 0; i < at.size(); ++i) {
            if (!at[i].present) continue;
            for (const std::size_t e : at[i].elements) {
                const std::int64_t inner = is_square(i) ? 2 * operands[i].data[e] : 1;
                const std::int64_t own = modulo(modulo(up * slope[i]) * modulo(inner));
                gradients[i].set(e, modulo(gradients[i].data[e] + own));
            }
        }
    });
    return gradients;
}

}  // namespace partita::plan
