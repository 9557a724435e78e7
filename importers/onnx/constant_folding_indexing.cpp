// SPDX-License-Identifier: Apache-2.0
//
// Folding of operators that pick or place elements by index.
#include <algorithm>
#include <array>

#include "importers/onnx/folding_rows.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

Literals fold_gather(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const Literal& indices = operand(node, 1);
    const std::size_t axis = normalize_axis(node.attributes.get_int("axis", 0), x.shape.size());
    Shape shape(x.shape.begin(), x.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
    shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                 x.shape.end());
    Literal y = make_result(node, x.dtype, shape);
    const std::size_t inner = strides_of(x.shape)[axis];
    const std::size_t count = integers(indices).size();
    for (std::size_t flat = 0; flat < y.size(); ++flat) {
        const std::size_t at = flat / inner % count;
        const std::size_t picked =
            normalize_axis(indices.integer(at), static_cast<std::size_t>(x.shape[axis]));
        const std::size_t outer = flat / inner / count;
        const auto extent = static_cast<std::size_t>(x.shape[axis]);
        copy_element(y, flat, x, (outer * extent + picked) * inner + flat % inner);
    }
    return {std::move(y)};
}

/// Offset in `x` of the slice that one index tuple names.
std::size_t tuple_offset(const Literal& x, const std::vector<std::size_t>& strides,
                         const Literal& indices, std::size_t tuple, std::size_t depth,
                         std::size_t first_dim) {
    std::size_t offset = 0;
    for (std::size_t d = 0; d < depth; ++d) {
        const auto extent = static_cast<std::size_t>(x.shape[first_dim + d]);
        offset +=
            normalize_axis(indices.integer(tuple * depth + d), extent) * strides[first_dim + d];
    }
    return offset;
}

std::size_t product(const Shape& shape, std::size_t from, std::size_t to) {
    std::size_t result = 1;
    for (std::size_t d = from; d < to; ++d) result *= static_cast<std::size_t>(shape[d]);
    return result;
}

Literals fold_gather_nd(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    const Literal& indices = operand(node, 1);
    const std::int64_t batch_dims = node.attributes.get_int("batch_dims", 0);
    if (indices.shape.empty() || !indices.integral() || batch_dims < 0) throw NotFoldable{};
    const auto batch = static_cast<std::size_t>(batch_dims);
    const auto depth = static_cast<std::size_t>(indices.shape.back());
    if (batch >= indices.shape.size() || batch > x.shape.size() || depth > x.shape.size() - batch) {
        throw NotFoldable{};
    }
    if (!std::equal(x.shape.begin(), x.shape.begin() + batch_dims, indices.shape.begin())) {
        throw NotFoldable{};
    }
    Shape shape(indices.shape.begin(), indices.shape.end() - 1);
    shape.insert(shape.end(), x.shape.begin() + static_cast<std::ptrdiff_t>(batch + depth),
                 x.shape.end());
    Literal y = make_result(node, x.dtype, shape);
    const std::size_t inner = product(x.shape, batch + depth, x.shape.size());
    const std::size_t batches = product(x.shape, 0, batch);
    const std::size_t tuples = product(indices.shape, 0, indices.shape.size() - 1);
    const std::size_t per_batch = product(x.shape, batch, x.shape.size());
    const std::vector<std::size_t> strides = strides_of(x.shape);
    for (std::size_t flat = 0; flat < y.size(); ++flat) {
        const std::size_t tuple = flat / inner;
        const std::size_t batch_offset = tuple / (tuples / batches) * per_batch;
        const std::size_t in_batch = tuple_offset(x, strides, indices, tuple, depth, batch);
        copy_element(y, flat, x, batch_offset + in_batch + flat % inner);
    }
    return {std::move(y)};
}

Literals fold_scatter_nd(const FoldNode& node) {
    const Literal& indices = operand(node, 1);
    const Literal& updates = operand(node, 2);
    Literal y = operand(node, 0);
    if (node.attributes.get_string("reduction", "none") != "none") throw NotFoldable{};
    if (indices.shape.empty() || !indices.integral()) throw NotFoldable{};
    const auto depth = static_cast<std::size_t>(indices.shape.back());
    if (depth > y.shape.size()) throw NotFoldable{};
    const std::size_t inner = product(y.shape, depth, y.shape.size());
    const std::size_t tuples = product(indices.shape, 0, indices.shape.size() - 1);
    if (updates.size() != tuples * inner) throw NotFoldable{};
    const std::vector<std::size_t> strides = strides_of(y.shape);
    for (std::size_t flat = 0; flat < updates.size(); ++flat) {
        const std::size_t at = tuple_offset(y, strides, indices, flat / inner, depth, 0);
        copy_element(y, at + flat % inner, updates, flat);
    }
    return {std::move(y)};
}

Literals fold_non_zero(const FoldNode& node) {
    const Literal& x = operand(node, 0);
    if (x.shape.empty()) throw NotFoldable{};
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < x.size(); ++i) {
        if (x.integral() ? x.integer(i) != 0 : x.real(i) != 0.0) found.push_back(i);
    }
    const std::vector<std::size_t> strides = strides_of(x.shape);
    Literal y = make_result(
        node, DType::int64,
        {static_cast<std::int64_t>(x.shape.size()), static_cast<std::int64_t>(found.size())});
    for (std::size_t d = 0; d < x.shape.size(); ++d) {
        for (std::size_t i = 0; i < found.size(); ++i) {
            const std::size_t index = found[i] / strides[d] % static_cast<std::size_t>(x.shape[d]);
            store(y, d * found.size() + i, static_cast<std::int64_t>(index));
        }
    }
    return {std::move(y)};
}

constexpr std::array kIndexingRows = {
    FoldRow{"Gather", fold_gather},
    FoldRow{"GatherND", fold_gather_nd},
    FoldRow{"NonZero", fold_non_zero},
    FoldRow{"ScatterND", fold_scatter_nd},
};

}  // namespace

std::span<const FoldRow> indexing_rows() {
    return kIndexingRows;
}

}  // namespace partita::importers
