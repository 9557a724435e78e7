// SPDX-License-Identifier: Apache-2.0
//
// Folding of operators that make, move, join or pick elements.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "importers/onnx/folding_rows.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

/// A list of integers as a 1-D int64 tensor.
Literal int64_list(const FoldNode& node, const std::vector<std::int64_t>& list) {
    Literal y = make_result(node, DType::int64, {static_cast<std::int64_t>(list.size())});
    std::get<0>(y.values) = list;
    return y;
}

/// The same elements under another shape of as many elements.
Literals reshaped(const FoldNode& node, const Shape& shape) {
    const Literal& x = operand(node, 0);
    const auto count = element_count(shape, static_cast<std::int64_t>(x.size()));
    if (!count || static_cast<std::size_t>(*count) != x.size()) throw NotFoldable{};
    if (!literal_fits(shape, node.limit)) throw NotFoldable{};  // an empty one of giant extents
    Literal y = x;
    y.shape = shape;
    return {std::move(y)};
}

// --- from shapes and attributes ----------------------------------------------------------------

/// An index into a list of `size`, clamped as the bounds of Shape and Slice are.
std::int64_t clamp_bound(std::int64_t bound, std::int64_t size) {
    if (bound < 0) bound += size;
    return std::clamp<std::int64_t>(bound, 0, size);
}

Literals fold_shape(const FoldNode& node) {
    if (node.operands.empty() || node.operands[0].shape == nullptr) throw NotFoldable{};
    const Shape& shape = *node.operands[0].shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    const std::int64_t start = clamp_bound(node.attributes.get_int("start", 0), rank);
    const std::int64_t end = clamp_bound(node.attributes.get_int("end", rank), rank);
    std::vector<std::int64_t> list;
    for (std::int64_t d = start; d < end; ++d) {
        if (shape[static_cast<std::size_t>(d)] < 0) throw NotFoldable{};
        list.push_back(shape[static_cast<std::size_t>(d)]);
    }
    return {int64_list(node, list)};
}

Literals fold_size(const FoldNode& node) {
    if (node.operands.empty() || node.operands[0].shape == nullptr) throw NotFoldable{};
    constexpr std::int64_t kLimit = std::int64_t{1} << 62;
    const auto count = element_count(*node.operands[0].shape, kLimit);
    if (!count) throw NotFoldable{};
    Literal y = make_result(node, DType::int64, {});
    store(y, 0, *count);
    return {std::move(y)};
}

Literals fold_constant_of_shape(const FoldNode& node) {
    const Literal* value = nullptr;
    for (const auto& [name, literal] : node.tensors) {
        if (name == "value") value = &literal;
    }
    // Without the attribute the value is a float zero; an attribute that is no literal is unknown.
    if (value == nullptr && node.attributes.find("value") != nullptr) throw NotFoldable{};
    if (value != nullptr && value->size() != 1) throw NotFoldable{};
    const Shape shape = integers(operand(node, 0));
    Literal y = make_result(node, value != nullptr ? value->dtype : DType::float32, shape);
    for (std::size_t i = 0; value != nullptr && i < y.size(); ++i) copy_element(y, i, *value, 0);
    return {std::move(y)};
}

Literals fold_range(const FoldNode& node) {
    const Literal& start = operand(node, 0);
    const Literal& limit = operand(node, 1);
    const Literal& delta = operand(node, 2);
    if (start.size() != 1 || limit.size() != 1 || delta.size() != 1) throw NotFoldable{};
    if (start.dtype != limit.dtype || start.dtype != delta.dtype) throw NotFoldable{};
    const double step = delta.real(0);
    if (step == 0.0) throw NotFoldable{};
    const double count = std::max(0.0, std::ceil((limit.real(0) - start.real(0)) / step));
    if (!(count <= static_cast<double>(node.limit))) throw NotFoldable{};
    Literal y = make_result(node, start.dtype, {static_cast<std::int64_t>(count)});
    for (std::size_t i = 0; i < y.size(); ++i) {
        if (y.integral()) {
            std::int64_t value = 0;
            if (__builtin_mul_overflow(static_cast<std::int64_t>(i), delta.integer(0), &value) ||
                __builtin_add_overflow(value, start.integer(0), &value)) {
                throw NotFoldable{};
            }
            store(y, i, value);
        } else {
            store(y, i, start.real(0) + static_cast<double>(i) * step);
        }
    }
    return {std::move(y)};
}

// --- other shape, same elements ----------------------------------------------------------------

Literals fold_reshape(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    Shape shape = operand_or_attribute(node, 1, "shape");
    const bool allow_zero = node.attributes.get_int("allowzero", 0) != 0;
    std::int64_t known = 1;
    std::size_t open = shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 0 && !allow_zero) shape[d] = d < x.shape.size() ? x.shape[d] : -2;
        if (shape[d] == -1 && open == shape.size()) {
            open = d;
            continue;
        }
        if (shape[d] < 0 || __builtin_mul_overflow(known, shape[d], &known)) throw NotFoldable{};
    }
    if (open < shape.size()) {
        if (known == 0) throw NotFoldable{};
        shape[open] = static_cast<std::int64_t>(x.size()) / known;
    }
    return reshaped(node, shape);
}

Literals fold_flatten(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const auto rank = static_cast<std::int64_t>(x.shape.size());
    std::int64_t axis = node.attributes.get_int("axis", 1);
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank) throw NotFoldable{};
    Shape shape = {1, 1};
    for (std::int64_t d = 0; d < rank; ++d) {
        shape[d < axis ? 0 : 1] *= x.shape[static_cast<std::size_t>(d)];
    }
    return reshaped(node, shape);
}

Literals fold_squeeze(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const std::vector<std::int64_t> axes = operand_or_attribute(node, 1, "axes");
    std::vector<bool> removed(x.shape.size(), false);
    for (const std::int64_t axis : axes) removed[normalize_axis(axis, x.shape.size())] = true;
    Shape shape;
    for (std::size_t d = 0; d < x.shape.size(); ++d) {
        if (axes.empty() ? x.shape[d] != 1 : !removed[d]) shape.push_back(x.shape[d]);
    }
    return reshaped(node, shape);
}

Literals fold_unsqueeze(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const std::vector<std::int64_t> axes = operand_or_attribute(node, 1, "axes");
    Shape shape(x.shape.size() + axes.size(), -1);
    for (const std::int64_t axis : axes) {
        std::int64_t& extent = shape[normalize_axis(axis, shape.size())];
        if (extent != -1) throw NotFoldable{};
        extent = 1;
    }
    auto next = x.shape.begin();
    for (std::int64_t& extent : shape) {
        if (extent == -1) extent = *next++;
    }
    return reshaped(node, shape);
}

// --- other order or repetition -----------------------------------------------------------------

Literals fold_transpose(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    std::vector<std::int64_t> order = node.attributes.get_ints("perm");
    const std::size_t rank = x.shape.size();
    if (order.empty()) {
        order.resize(rank);
        std::iota(order.rbegin(), order.rend(), 0);
    }
    if (order.size() != rank) throw NotFoldable{};
    const std::vector<std::size_t> own = strides_of(x.shape);
    std::vector<bool> seen(rank, false);
    Shape shape(rank);
    std::vector<std::size_t> strides(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        if (order[d] < 0) throw NotFoldable{};
        const std::size_t from = normalize_axis(order[d], rank);
        if (seen[from]) throw NotFoldable{};
        seen[from] = true;
        shape[d] = x.shape[from];
        strides[d] = own[from];
    }
    Literal y = make_result(node, x.dtype, shape);
    for_each_offset(shape, strides,
                    [&](std::size_t flat, std::size_t from) { copy_element(y, flat, x, from); });
    return {std::move(y)};
}

Literals fold_expand(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const Shape shape = broadcast(x.shape, integers(operand(node, 1)));
    Literal y = make_result(node, x.dtype, shape);
    for_each_offset(shape, broadcast_strides(x.shape, shape),
                    [&](std::size_t flat, std::size_t from) { copy_element(y, flat, x, from); });
    return {std::move(y)};
}

Literals fold_tile(const FoldNode& node) {
    if (node.opset < 6) throw NotFoldable{};
    const Literal& x = operand(node, 0);
    const std::vector<std::int64_t>& repeats = integers(operand(node, 1));
    if (repeats.size() != x.shape.size()) throw NotFoldable{};
    // [repeat, extent] per dim: the repeats have stride 0.
    const std::vector<std::size_t> own = strides_of(x.shape);
    Shape shape;
    Shape split;
    std::vector<std::size_t> strides;
    for (std::size_t d = 0; d < repeats.size(); ++d) {
        if (repeats[d] < 0) throw NotFoldable{};
        split.insert(split.end(), {repeats[d], x.shape[d]});
        strides.insert(strides.end(), {0, own[d]});
        shape.emplace_back();
        if (__builtin_mul_overflow(repeats[d], x.shape[d], &shape.back())) throw NotFoldable{};
    }
    Literal y = make_result(node, x.dtype, shape);
    for_each_offset(split, strides,
                    [&](std::size_t flat, std::size_t from) { copy_element(y, flat, x, from); });
    return {std::move(y)};
}

// --- joining and cutting -----------------------------------------------------------------------

Literals fold_concat(const FoldNode& node) {
    const Literal& first = operand(node, 0);
    const std::int64_t fallback = node.opset < 4 ? 1 : 0;
    const std::size_t axis =
        normalize_axis(node.attributes.get_int("axis", fallback), first.shape.size());
    Shape shape = first.shape;
    shape[axis] = 0;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const Literal& part = operand(node, i);
        if (part.shape.size() != shape.size() || part.dtype != first.dtype) throw NotFoldable{};
        for (std::size_t d = 0; d < shape.size(); ++d) {
            if (d != axis && part.shape[d] != shape[d]) throw NotFoldable{};
        }
        shape[axis] += part.shape[axis];
    }
    Literal y = make_result(node, first.dtype, shape);
    const std::vector<std::size_t> strides = strides_of(shape);
    std::size_t start = 0;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
        const Literal& part = operand(node, i);
        for_each_offset(part.shape, strides, [&](std::size_t from, std::size_t to) {
            copy_element(y, start + to, part, from);
        });
        start += strides[axis] * static_cast<std::size_t>(part.shape[axis]);
    }
    return {std::move(y)};
}

Literals fold_split(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const std::size_t axis = normalize_axis(node.attributes.get_int("axis", 0), x.shape.size());
    std::vector<std::int64_t> sizes = operand_or_attribute(node, 1, "split");
    const auto parts = static_cast<std::int64_t>(node.results);
    if (sizes.empty()) {
        const std::int64_t size = (x.shape[axis] + parts - 1) / parts;
        for (std::int64_t i = 0; i < parts; ++i) {
            sizes.push_back(std::clamp<std::int64_t>(x.shape[axis] - i * size, 0, size));
        }
    }
    const std::vector<std::size_t> strides = strides_of(x.shape);
    Literals results;
    std::int64_t start = 0;
    for (const std::int64_t size : sizes) {
        if (size < 0 || size > x.shape[axis] - start) throw NotFoldable{};
        Shape shape = x.shape;
        shape[axis] = size;
        Literal y = make_result(node, x.dtype, shape);
        const std::size_t first = strides[axis] * static_cast<std::size_t>(start);
        for_each_offset(shape, strides, [&](std::size_t flat, std::size_t from) {
            copy_element(y, flat, x, first + from);
        });
        results.push_back(std::move(y));
        start += size;
    }
    if (start != x.shape[axis]) throw NotFoldable{};
    return results;
}

struct SliceBounds {
    std::vector<std::int64_t> starts, ends, axes, steps;
};

SliceBounds slice_bounds(const FoldNode& node) {
    SliceBounds bounds{operand_or_attribute(node, 1, "starts"),
                       operand_or_attribute(node, 2, "ends"), operand_or_attribute(node, 3, "axes"),
                       operand_or_attribute(node, 4, "")};
    const std::size_t count = bounds.starts.size();
    if (bounds.axes.empty()) {
        bounds.axes.resize(count);
        std::iota(bounds.axes.begin(), bounds.axes.end(), 0);
    }
    if (bounds.steps.empty()) bounds.steps.assign(count, 1);
    if (bounds.ends.size() != count || bounds.axes.size() != count ||
        bounds.steps.size() != count) {
        throw NotFoldable{};
    }
    return bounds;
}

Literals fold_slice(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const SliceBounds bounds = slice_bounds(node);
    const std::vector<std::size_t> own = strides_of(x.shape);
    // Indices of the operand, dim by dim; negative steps make strides awkward, lists do not.
    std::vector<std::vector<std::size_t>> picked(x.shape.size());
    for (std::size_t d = 0; d < picked.size(); ++d) {
        picked[d].resize(static_cast<std::size_t>(x.shape[d]));
        std::iota(picked[d].begin(), picked[d].end(), std::size_t{0});
    }
    for (std::size_t i = 0; i < bounds.starts.size(); ++i) {
        const std::size_t axis = normalize_axis(bounds.axes[i], x.shape.size());
        const std::int64_t extent = x.shape[axis];
        const std::int64_t step = bounds.steps[i];
        if (step == 0 || step < -(std::int64_t{1} << 40) || step > (std::int64_t{1} << 40)) {
            throw NotFoldable{};
        }
        const std::int64_t low = step > 0 ? 0 : -1;
        const std::int64_t high = step > 0 ? extent : extent - 1;
        const auto bound = [&](std::int64_t value, std::int64_t lowest) {
            if (value < 0) value += extent;
            return std::clamp(value, lowest, high);
        };
        const std::int64_t start = bound(bounds.starts[i], 0);
        const std::int64_t end = bound(bounds.ends[i], low);
        picked[axis].clear();
        if (extent == 0) continue;
        for (std::int64_t at = start; step > 0 ? at < end : at > end; at += step) {
            picked[axis].push_back(static_cast<std::size_t>(at));
        }
    }
    Shape shape;
    for (const auto& list : picked) shape.push_back(static_cast<std::int64_t>(list.size()));
    Literal y = make_result(node, x.dtype, shape);
    const std::vector<std::size_t> strides = strides_of(shape);
    for (std::size_t flat = 0; flat < y.size(); ++flat) {
        std::size_t from = 0;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            from += own[d] * picked[d][flat / strides[d] % static_cast<std::size_t>(shape[d])];
        }
        copy_element(y, flat, x, from);
    }
    return {std::move(y)};
}

Literals fold_trilu(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    if (x.shape.size() < 2) throw NotFoldable{};
    const Literal* k = optional_operand(node, 1);
    const std::int64_t diagonal = k != nullptr && k->size() == 1 ? integers(*k)[0] : 0;
    const bool upper = node.attributes.get_int("upper", 1) != 0;
    const auto rows = x.shape[x.shape.size() - 2];
    const auto columns = x.shape.back();
    Literal y = make_result(node, x.dtype, x.shape);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto column = static_cast<std::int64_t>(i) % columns;
        const auto row = static_cast<std::int64_t>(i) / columns % rows;
        const bool kept = upper ? column - row >= diagonal : column - row <= diagonal;
        if (kept) copy_element(y, i, x, i);
    }
    return {std::move(y)};
}

constexpr std::array kMovementRows = {
    FoldRow{"Concat", fold_concat},
    FoldRow{"ConstantOfShape", fold_constant_of_shape},
    FoldRow{"Expand", fold_expand},
    FoldRow{"Flatten", fold_flatten},
    FoldRow{"Range", fold_range},
    FoldRow{"Reshape", fold_reshape},
    FoldRow{"Shape", fold_shape, /*shape_only=*/true},
    FoldRow{"Size", fold_size, /*shape_only=*/true},
    FoldRow{"Slice", fold_slice},
    FoldRow{"Split", fold_split},
    FoldRow{"Squeeze", fold_squeeze},
    FoldRow{"Tile", fold_tile},
    FoldRow{"Transpose", fold_transpose},
    FoldRow{"Trilu", fold_trilu},
    FoldRow{"Unsqueeze", fold_unsqueeze},
};

}  // namespace

std::span<const FoldRow> movement_rows() {
    return kMovementRows;
}

}  // namespace partita::importers
