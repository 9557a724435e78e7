// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/bounded_results.h"

#include <algorithm>
#include <array>
#include <limits>

namespace partita::importers {

using graph::Shape;
using Bounds = std::vector<std::optional<Shape>>;

namespace {

const Shape* shape_of_operand(const BoundNode& node, std::size_t i) {
    return i < node.operands.size() ? node.operands[i].shape : nullptr;
}

const Literal* literal_of_operand(const BoundNode& node, std::size_t i) {
    return i < node.operands.size() ? node.operands[i].literal : nullptr;
}

std::int64_t elements(const Shape& shape) {
    return element_count(shape, std::numeric_limits<std::int64_t>::max()).value_or(0);
}

/// The attribute `axis` as an index, if there is one and it is in range.
std::optional<std::size_t> axis_of(const BoundNode& node, const Shape& shape,
                                   std::int64_t fallback) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    std::int64_t axis = node.attributes.get_int("axis", fallback);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return std::nullopt;
    return static_cast<std::size_t>(axis);
}

Bounds bound_non_zero(const BoundNode& node) {
    const Shape* x = shape_of_operand(node, 0);
    if (x == nullptr) return {};
    // A scalar counts as one element of one dim.
    const auto rank = std::max<std::int64_t>(static_cast<std::int64_t>(x->size()), 1);
    return {Shape{rank, elements(*x)}};
}

Bounds bound_unique(const BoundNode& node) {
    const Shape* x = shape_of_operand(node, 0);
    if (x == nullptr) return {};
    if (node.attributes.find("axis") == nullptr) {
        const Shape all = {elements(*x)};
        return {all, all, all, all};
    }
    const auto axis = axis_of(node, *x, 0);
    if (!axis) return {};
    const Shape list = {(*x)[*axis]};
    return {*x, list, list, list};
}

Bounds bound_compress(const BoundNode& node) {
    const Shape* x = shape_of_operand(node, 0);
    const Shape* condition = shape_of_operand(node, 1);
    if (x == nullptr) return {};
    const auto limit = [&](std::int64_t extent) {
        return condition != nullptr ? std::min(extent, elements(*condition)) : extent;
    };
    if (node.attributes.find("axis") == nullptr) return {Shape{limit(elements(*x))}};
    const auto axis = axis_of(node, *x, 0);
    if (!axis) return {};
    Shape y = *x;
    y[*axis] = limit(y[*axis]);
    return {y};
}

Bounds bound_non_max_suppression(const BoundNode& node) {
    const Shape* scores = shape_of_operand(node, 1);  // [batch, classes, boxes]
    if (scores == nullptr || scores->size() != 3) return {};
    std::int64_t per_class = (*scores)[2];
    const Literal* most = literal_of_operand(node, 2);
    const bool left_out = node.operands.size() < 3;
    if (left_out) per_class = 0;  // the default of max_output_boxes_per_class
    if (most != nullptr && most->integral() && most->size() == 1) {
        per_class = std::clamp<std::int64_t>(most->integer(0), 0, per_class);
    }
    return {Shape{elements({(*scores)[0], (*scores)[1], per_class}), 3}};
}

/// The result is a part of operand 0: Slice with bounds from data, TopK of unknown k.
Bounds bound_by_operand(const BoundNode& node) {
    const Shape* x = shape_of_operand(node, 0);
    if (x == nullptr) return {};
    return Bounds(node.results, *x);
}

/// A reduction over axes that are not known keeps the rank only with keepdims.
Bounds bound_reduction(const BoundNode& node) {
    if (node.attributes.get_int("keepdims", 1) == 0) return {};
    return bound_by_operand(node);
}

/// An empty tensor of strings splits into nothing; any other into as many parts as it happens to.
Bounds bound_string_split(const BoundNode& node) {
    const Shape* x = shape_of_operand(node, 0);
    if (x == nullptr || elements(*x) != 0) return {};
    Shape parts = *x;
    parts.push_back(0);
    return {parts, *x};
}

struct BoundRow {
    std::string_view type;
    Bounds (*function)(const BoundNode& node);
};

constexpr std::array kBoundRows = {
    BoundRow{"Compress", bound_compress},
    BoundRow{"NonMaxSuppression", bound_non_max_suppression},
    BoundRow{"NonZero", bound_non_zero},
    BoundRow{"ReduceL1", bound_reduction},
    BoundRow{"ReduceL2", bound_reduction},
    BoundRow{"ReduceLogSum", bound_reduction},
    BoundRow{"ReduceLogSumExp", bound_reduction},
    BoundRow{"ReduceMax", bound_reduction},
    BoundRow{"ReduceMean", bound_reduction},
    BoundRow{"ReduceMin", bound_reduction},
    BoundRow{"ReduceProd", bound_reduction},
    BoundRow{"ReduceSum", bound_reduction},
    BoundRow{"ReduceSumSquare", bound_reduction},
    BoundRow{"Slice", bound_by_operand},
    BoundRow{"Split", bound_by_operand},
    BoundRow{"StringSplit", bound_string_split},
    BoundRow{"TopK", bound_by_operand},
    BoundRow{"Unique", bound_unique},
};

}  // namespace

Bounds upper_bounds(const BoundNode& node) {
    for (const BoundRow& row : kBoundRows) {
        if (row.type == node.type) return row.function(node);
    }
    return {};
}

}  // namespace partita::importers
