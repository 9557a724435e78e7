// SPDX-License-Identifier: Apache-2.0
//
// Folding of reductions, scans and arg-reductions.
#include <algorithm>
#include <array>
#include <cmath>

#include "importers/onnx/folding_rows.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

std::vector<bool> reduced_dims(const FoldNode& node, std::size_t rank) {
    const std::vector<std::int64_t> axes = operand_or_attribute(node, 1, "axes");
    const bool none = axes.empty() && node.attributes.get_int("noop_with_empty_axes", 0) != 0;
    std::vector<bool> reduced(rank, axes.empty() && !none);
    for (const std::int64_t axis : axes) reduced[normalize_axis(axis, rank)] = true;
    return reduced;
}

/// Folds the elements of each group into one: combine(accumulator, element, is first).
template <class Integer, class Real>
Literals reduce(const FoldNode& node, Integer integer, Real real) {
    const Literal& x = operand(node, 0);
    const std::vector<bool> reduced = reduced_dims(node, x.shape.size());
    const bool keep = node.attributes.get_int("keepdims", 1) != 0;
    Shape kept = x.shape;
    Shape shape;
    for (std::size_t d = 0; d < kept.size(); ++d) {
        if (reduced[d]) kept[d] = 1;
        if (keep || !reduced[d]) shape.push_back(kept[d]);
    }
    // An empty group would need the identity of the reduction; no shape arithmetic has one.
    if (x.size() == 0) throw NotFoldable{};
    Literal y = make_result(node, x.dtype, shape);
    std::vector<bool> started(y.size(), false);
    for_each_offset(x.shape, broadcast_strides(kept, x.shape),
                    [&](std::size_t from, std::size_t to) {
                        if (!started[to]) {
                            copy_element(y, to, x, from);
                        } else if (x.integral()) {
                            store(y, to, integer(y.integer(to), x.integer(from)));
                        } else {
                            store(y, to, real(y.real(to), x.real(from)));
                        }
                        started[to] = true;
                    });
    return {std::move(y)};
}

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_add_overflow(a, b, &result)) throw NotFoldable{};
    return result;
}
std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (__builtin_mul_overflow(a, b, &result)) throw NotFoldable{};
    return result;
}

Literals fold_reduce_sum(const FoldNode& node) {
    return reduce(node, checked_add, [](double a, double b) { return a + b; });
}
Literals fold_reduce_prod(const FoldNode& node) {
    return reduce(node, checked_multiply, [](double a, double b) { return a * b; });
}
Literals fold_reduce_min(const FoldNode& node) {
    return reduce(
        node, [](std::int64_t a, std::int64_t b) { return std::min(a, b); },
        [](double a, double b) { return std::min(a, b); });
}
Literals fold_reduce_max(const FoldNode& node) {
    return reduce(
        node, [](std::int64_t a, std::int64_t b) { return std::max(a, b); },
        [](double a, double b) { return std::max(a, b); });
}

/// One line along an axis: `count` elements from `start` on, `stride` apart.
struct Line {
    std::size_t start, stride, count, number;
};

template <class Visit>
void for_each_line(const Shape& shape, std::size_t axis, Visit visit) {
    const std::size_t stride = strides_of(shape)[axis];
    const auto count = static_cast<std::size_t>(shape[axis]);
    std::size_t outer = 1;
    for (std::size_t d = 0; d < axis; ++d) outer *= static_cast<std::size_t>(shape[d]);
    for (std::size_t o = 0; o < outer; ++o) {
        for (std::size_t i = 0; i < stride; ++i) {
            visit(Line{o * stride * count + i, stride, count, o * stride + i});
        }
    }
}

Literals fold_cum_sum(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const Literal& axis_operand = operand(node, 1);
    if (axis_operand.size() != 1 || x.shape.empty()) throw NotFoldable{};
    const std::size_t axis = normalize_axis(integers(axis_operand)[0], x.shape.size());
    const bool exclusive = node.attributes.get_int("exclusive", 0) != 0;
    const bool reverse = node.attributes.get_int("reverse", 0) != 0;
    Literal y = make_result(node, x.dtype, x.shape);
    for_each_line(x.shape, axis, [&](const Line& line) {
        std::int64_t integer_sum = 0;
        double real_sum = 0.0;
        for (std::size_t i = 0; i < line.count; ++i) {
            const std::size_t step = reverse ? line.count - 1 - i : i;
            const std::size_t at = line.start + step * line.stride;
            const auto put = [&] {
                if (x.integral()) {
                    store(y, at, integer_sum);
                } else {
                    store(y, at, real_sum);
                }
            };
            if (exclusive) put();
            if (x.integral()) {
                integer_sum = checked_add(integer_sum, x.integer(at));
            } else {
                real_sum += x.real(at);
            }
            if (!exclusive) put();
        }
    });
    return {std::move(y)};
}

template <class Better>
Literals arg_reduce(const FoldNode& node, Better better) {
    const Literal& x = operand(node, 0);
    const std::size_t axis = normalize_axis(node.attributes.get_int("axis", 0), x.shape.size());
    const bool last = node.attributes.get_int("select_last_index", 0) != 0;
    if (x.shape[axis] == 0) throw NotFoldable{};
    Shape shape = x.shape;
    shape[axis] = 1;
    if (node.attributes.get_int("keepdims", 1) == 0) {
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    Literal y = make_result(node, DType::int64, shape);
    for_each_line(x.shape, axis, [&](const Line& line) {
        std::size_t best = 0;
        for (std::size_t i = 1; i < line.count; ++i) {
            const std::size_t here = line.start + i * line.stride;
            const std::size_t there = line.start + best * line.stride;
            const bool wins = x.integral() ? better(x.integer(here), x.integer(there))
                                           : better(x.real(here), x.real(there));
            const bool equal =
                x.integral() ? x.integer(here) == x.integer(there) : x.real(here) == x.real(there);
            if (wins || (last && equal)) best = i;
        }
        store(y, line.number, static_cast<std::int64_t>(best));
    });
    return {std::move(y)};
}

Literals fold_arg_max(const FoldNode& node) {
    return arg_reduce(node, std::greater<>{});
}
Literals fold_arg_min(const FoldNode& node) {
    return arg_reduce(node, std::less<>{});
}

constexpr std::array kReductionRows = {
    FoldRow{"ArgMax", fold_arg_max},       FoldRow{"ArgMin", fold_arg_min},
    FoldRow{"CumSum", fold_cum_sum},       FoldRow{"ReduceMax", fold_reduce_max},
    FoldRow{"ReduceMin", fold_reduce_min}, FoldRow{"ReduceProd", fold_reduce_prod},
    FoldRow{"ReduceSum", fold_reduce_sum},
};

}  // namespace

std::span<const FoldRow> reduction_rows() {
    return kReductionRows;
}

}  // namespace partita::importers
