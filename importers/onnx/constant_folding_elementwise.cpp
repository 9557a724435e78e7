// SPDX-License-Identifier: Apache-2.0
//
// Folding of operators that work element by element, with numpy's broadcasting.
#include <algorithm>
#include <array>
#include <cmath>

#include "importers/onnx/folding_rows.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

// --- one operand -------------------------------------------------------------------------------

template <class Integer, class Real>
Literals unary(const FoldNode& node, Integer integer, Real real) {
    const Literal& x = operand(node, 0);
    Literal y = make_result(node, x.dtype, x.shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (x.integral()) {
            store(y, i, integer(x.integer(i)));
        } else {
            store(y, i, real(x.real(i)));
        }
    }
    return {std::move(y)};
}

/// For operators that exist for floating-point numbers only.
template <class Real>
Literals real_unary(const FoldNode& node, Real real) {
    return unary(
        node, [](std::int64_t) -> std::int64_t { throw NotFoldable{}; }, real);
}

std::int64_t negated(std::int64_t a) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(std::int64_t{0}, a, &result)) throw NotFoldable{};
    return result;
}

Literals fold_neg(const FoldNode& node) {
    return unary(node, negated, [](double a) { return -a; });
}
Literals fold_abs(const FoldNode& node) {
    return unary(
        node, [](std::int64_t a) { return a < 0 ? negated(a) : a; },
        [](double a) { return std::fabs(a); });
}
Literals fold_sign(const FoldNode& node) {
    return unary(
        node, [](std::int64_t a) { return std::int64_t{(a > 0) - (a < 0)}; },
        [](double a) { return std::isnan(a) ? a : static_cast<double>((a > 0) - (a < 0)); });
}
Literals fold_relu(const FoldNode& node) {
    return unary(
        node, [](std::int64_t a) { return std::max<std::int64_t>(a, 0); },
        [](double a) { return a > 0 ? a : 0.0; });
}
Literals fold_not(const FoldNode& node) {
    return unary(
        node, [](std::int64_t a) { return std::int64_t{a == 0}; },
        [](double) -> double { throw NotFoldable{}; });
}
Literals fold_identity(const FoldNode& node) {
    return {operand(node, 0)};
}
Literals fold_floor(const FoldNode& node) {
    return real_unary(node, [](double a) { return std::floor(a); });
}
Literals fold_ceil(const FoldNode& node) {
    return real_unary(node, [](double a) { return std::ceil(a); });
}
Literals fold_round(const FoldNode& node) {  // ties to even, as ONNX says
    return real_unary(node, [](double a) { return std::nearbyint(a); });
}
Literals fold_sqrt(const FoldNode& node) {
    return real_unary(node, [](double a) { return std::sqrt(a); });
}
Literals fold_exp(const FoldNode& node) {
    return real_unary(node, [](double a) { return std::exp(a); });
}
Literals fold_log(const FoldNode& node) {
    return real_unary(node, [](double a) { return std::log(a); });
}
Literals fold_reciprocal(const FoldNode& node) {
    return real_unary(node, [](double a) { return 1.0 / a; });
}

Literals cast_to(const FoldNode& node, DType dtype) {
    const Literal& x = operand(node, 0);
    Literal y = make_result(node, dtype, x.shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (dtype == DType::boolean) {
            store(y, i, std::int64_t{x.integral() ? x.integer(i) != 0 : x.real(i) != 0.0});
        } else if (x.integral()) {
            store(y, i, x.integer(i));
        } else {
            store(y, i, x.real(i));
        }
    }
    return {std::move(y)};
}
Literals fold_cast(const FoldNode& node) {
    const std::int64_t to = node.attributes.get_int("to", 0);
    if (to <= 0 || to >= graph::kDTypeCount) throw NotFoldable{};
    return cast_to(node, static_cast<DType>(to));
}
Literals fold_cast_like(const FoldNode& node) {
    return cast_to(node, operand(node, 1).dtype);
}

// --- two or more operands ----------------------------------------------------------------------

struct Pair {
    const Literal& a;
    const Literal& b;
    Shape shape;
};

Pair broadcast_pair(const FoldNode& node, std::size_t i, std::size_t j) {
    const Literal& a = operand(node, i);
    const Literal& b = operand(node, j);
    // Before opset 7 broadcasting was asked for by attributes, and aligned elsewhere.
    if (node.opset < 7 && a.shape != b.shape && !b.shape.empty()) throw NotFoldable{};
    return {a, b, broadcast(a.shape, b.shape)};
}

/// Calls visit(flat, index in a, index in b) over the broadcast shape.
template <class Visit>
void for_each_pair(const Pair& pair, Visit visit) {
    std::vector<std::size_t> from_b;
    for_each_offset(pair.shape, broadcast_strides(pair.b.shape, pair.shape),
                    [&](std::size_t, std::size_t offset) { from_b.push_back(offset); });
    for_each_offset(
        pair.shape, broadcast_strides(pair.a.shape, pair.shape),
        [&](std::size_t flat, std::size_t from_a) { visit(flat, from_a, from_b[flat]); });
}

template <class Integer, class Real>
Literal arithmetic(const FoldNode& node, const Literal& a, const Literal& b, Integer integer,
                   Real real) {
    if (a.integral() != b.integral()) throw NotFoldable{};
    const Pair pair{a, b, broadcast(a.shape, b.shape)};
    Literal y = make_result(node, a.dtype, pair.shape);
    for_each_pair(pair, [&](std::size_t flat, std::size_t i, std::size_t j) {
        if (a.integral()) {
            store(y, flat, integer(a.integer(i), b.integer(j)));
        } else {
            store(y, flat, real(a.real(i), b.real(j)));
        }
    });
    return y;
}

template <class Integer, class Real>
Literals binary(const FoldNode& node, Integer integer, Real real) {
    const Pair pair = broadcast_pair(node, 0, 1);
    return {arithmetic(node, pair.a, pair.b, integer, real)};
}

/// Min, Max and Sum take any number of operands.
template <class Integer, class Real>
Literals variadic(const FoldNode& node, Integer integer, Real real) {
    Literal result = operand(node, 0);
    for (std::size_t i = 1; i < node.operands.size(); ++i) {
        result = arithmetic(node, result, operand(node, i), integer, real);
    }
    return {std::move(result)};
}

std::int64_t add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) throw NotFoldable{};
    return result;
}
std::int64_t subtract(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_sub_overflow(a, b, &result)) throw NotFoldable{};
    return result;
}
std::int64_t multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) throw NotFoldable{};
    return result;
}
std::int64_t divide(std::int64_t a, std::int64_t b) {
    if (b == 0 || b == -1) return b == 0 ? throw NotFoldable{} : negated(a);
    return a / b;
}
/// The sign of Mod follows the divisor, that of fmod the dividend.
std::int64_t modulo(std::int64_t a, std::int64_t b, bool fmod) {
    if (b == 0) throw NotFoldable{};
    const std::int64_t rest = b == -1 ? 0 : a % b;
    return !fmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
/// By squaring: of a base other than -1, 0 and 1 at most 63 factors fit.
std::int64_t power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) throw NotFoldable{};
    std::int64_t result = 1;
    for (std::int64_t rest = exponent; rest > 0; rest /= 2) {
        if (rest % 2 != 0) result = multiply(result, base);
        if (rest > 1) base = multiply(base, base);
    }
    return result;
}

Literals fold_add(const FoldNode& node) {
    return binary(node, add, [](double a, double b) { return a + b; });
}
Literals fold_sub(const FoldNode& node) {
    return binary(node, subtract, [](double a, double b) { return a - b; });
}
Literals fold_mul(const FoldNode& node) {
    return binary(node, multiply, [](double a, double b) { return a * b; });
}
Literals fold_div(const FoldNode& node) {
    return binary(node, divide, [](double a, double b) { return a / b; });
}
Literals fold_mod(const FoldNode& node) {
    const bool fmod = node.attributes.get_int("fmod", 0) != 0;
    return binary(
        node, [fmod](std::int64_t a, std::int64_t b) { return modulo(a, b, fmod); },
        [](double a, double b) { return std::fmod(a, b); });
}
Literals fold_pow(const FoldNode& node) {
    const Pair pair = broadcast_pair(node, 0, 1);
    if (pair.a.integral() && pair.b.integral()) {
        return binary(node, power, [](double a, double) { return a; });
    }
    Literal y = make_result(node, pair.a.dtype, pair.shape);
    for_each_pair(pair, [&](std::size_t flat, std::size_t i, std::size_t j) {
        store(y, flat, std::pow(pair.a.real(i), pair.b.real(j)));
    });
    return {std::move(y)};
}
Literals fold_sum(const FoldNode& node) {
    return variadic(node, add, [](double a, double b) { return a + b; });
}
Literals fold_min(const FoldNode& node) {
    return variadic(
        node, [](std::int64_t a, std::int64_t b) { return std::min(a, b); },
        [](double a, double b) { return a < b || std::isnan(a) ? a : b; });
}
Literals fold_max(const FoldNode& node) {
    return variadic(
        node, [](std::int64_t a, std::int64_t b) { return std::max(a, b); },
        [](double a, double b) { return a > b || std::isnan(a) ? a : b; });
}

/// Comparisons and logic: the result is boolean.
template <class Integer, class Real>
Literals predicate(const FoldNode& node, Integer integer, Real real) {
    const Pair pair = broadcast_pair(node, 0, 1);
    if (pair.a.integral() != pair.b.integral()) throw NotFoldable{};
    Literal y = make_result(node, DType::boolean, pair.shape);
    for_each_pair(pair, [&](std::size_t flat, std::size_t i, std::size_t j) {
        const bool value = pair.a.integral() ? integer(pair.a.integer(i), pair.b.integer(j))
                                             : real(pair.a.real(i), pair.b.real(j));
        store(y, flat, std::int64_t{value});
    });
    return {std::move(y)};
}

Literals fold_equal(const FoldNode& node) {
    return predicate(node, std::equal_to<std::int64_t>{}, std::equal_to<double>{});
}
Literals fold_less(const FoldNode& node) {
    return predicate(node, std::less<std::int64_t>{}, std::less<double>{});
}
Literals fold_less_or_equal(const FoldNode& node) {
    return predicate(node, std::less_equal<std::int64_t>{}, std::less_equal<double>{});
}
Literals fold_greater(const FoldNode& node) {
    return predicate(node, std::greater<std::int64_t>{}, std::greater<double>{});
}
Literals fold_greater_or_equal(const FoldNode& node) {
    return predicate(node, std::greater_equal<std::int64_t>{}, std::greater_equal<double>{});
}
bool no_reals(double, double) {
    throw NotFoldable{};
}
Literals fold_and(const FoldNode& node) {
    return predicate(
        node, [](std::int64_t a, std::int64_t b) { return a != 0 && b != 0; }, no_reals);
}
Literals fold_or(const FoldNode& node) {
    return predicate(
        node, [](std::int64_t a, std::int64_t b) { return a != 0 || b != 0; }, no_reals);
}
Literals fold_xor(const FoldNode& node) {
    return predicate(
        node, [](std::int64_t a, std::int64_t b) { return (a != 0) != (b != 0); }, no_reals);
}

Literals fold_where(const FoldNode& node) {
    const Literal& condition = operand(node, 0);
    const Literal& x = operand(node, 1);
    const Literal& y = operand(node, 2);
    if (!condition.integral() || x.dtype != y.dtype) throw NotFoldable{};
    const Shape shape = broadcast(condition.shape, broadcast(x.shape, y.shape));
    Literal result = make_result(node, x.dtype, shape);
    std::vector<std::size_t> from_x;
    std::vector<std::size_t> from_y;
    for_each_offset(shape, broadcast_strides(x.shape, shape),
                    [&](std::size_t, std::size_t offset) { from_x.push_back(offset); });
    for_each_offset(shape, broadcast_strides(y.shape, shape),
                    [&](std::size_t, std::size_t offset) { from_y.push_back(offset); });
    for_each_offset(shape, broadcast_strides(condition.shape, shape),
                    [&](std::size_t flat, std::size_t offset) {
                        if (condition.integer(offset) != 0) {
                            copy_element(result, flat, x, from_x[flat]);
                        } else {
                            copy_element(result, flat, y, from_y[flat]);
                        }
                    });
    return {std::move(result)};
}

constexpr std::array kElementwiseRows = {
    FoldRow{"Abs", fold_abs},
    FoldRow{"Add", fold_add},
    FoldRow{"And", fold_and},
    FoldRow{"Cast", fold_cast},
    FoldRow{"CastLike", fold_cast_like},
    FoldRow{"Ceil", fold_ceil},
    FoldRow{"Div", fold_div},
    FoldRow{"Equal", fold_equal},
    FoldRow{"Exp", fold_exp},
    FoldRow{"Floor", fold_floor},
    FoldRow{"Greater", fold_greater},
    FoldRow{"GreaterOrEqual", fold_greater_or_equal},
    FoldRow{"Identity", fold_identity},
    FoldRow{"Less", fold_less},
    FoldRow{"LessOrEqual", fold_less_or_equal},
    FoldRow{"Log", fold_log},
    FoldRow{"Max", fold_max},
    FoldRow{"Min", fold_min},
    FoldRow{"Mod", fold_mod},
    FoldRow{"Mul", fold_mul},
    FoldRow{"Neg", fold_neg},
    FoldRow{"Not", fold_not},
    FoldRow{"Or", fold_or},
    FoldRow{"Pow", fold_pow},
    FoldRow{"Reciprocal", fold_reciprocal},
    FoldRow{"Relu", fold_relu},
    FoldRow{"Round", fold_round},
    FoldRow{"Sign", fold_sign},
    FoldRow{"Sqrt", fold_sqrt},
    FoldRow{"Sub", fold_sub},
    FoldRow{"Sum", fold_sum},
    FoldRow{"Where", fold_where},
    FoldRow{"Xor", fold_xor},
};

}  // namespace

std::span<const FoldRow> elementwise_rows() {
    return kElementwiseRows;
}

}  // namespace partita::importers
