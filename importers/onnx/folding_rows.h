// SPDX-License-Identifier: Apache-2.0
//
// What the parts of constant folding share: rows of the table and broadcasting. Private to
// constant_folding*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "importers/onnx/constant_folding.h"

namespace partita::importers {

/// Thrown inside a row's function when the node cannot be evaluated; fold() catches it.
struct NotFoldable : std::exception {
    const char* what() const noexcept override { return "not a constant that folding can make"; }
};

struct FoldRow {
    std::string_view type;
    Literals (*function)(const FoldNode& node);
    bool shape_only = false;  ///< needs shapes, not contents
};

std::span<const FoldRow> elementwise_rows();
std::span<const FoldRow> movement_rows();
std::span<const FoldRow> indexing_rows();
std::span<const FoldRow> reduction_rows();

/// Operand `i`, which must be there.
const Literal& operand(const FoldNode& node, std::size_t i);
/// Operand `i`, or null when it is left out.
const Literal* optional_operand(const FoldNode& node, std::size_t i);
/// All elements as int64; NotFoldable when the literal is not integral.
const std::vector<std::int64_t>& integers(const Literal& literal);
/// The integers of operand `i` or, where older operator sets have an attribute, of that.
std::vector<std::int64_t> operand_or_attribute(const FoldNode& node, std::size_t i,
                                               std::string_view attribute);

/// `axis` in [-rank, rank) as an index; NotFoldable otherwise.
std::size_t normalize_axis(std::int64_t axis, std::size_t rank);

/// Takes what a walk through the literal costs from what is left; NotFoldable when that is too
/// much.
void spend(const FoldNode& node, const Literal& literal);

/// A literal of that shape, or NotFoldable when it would be too large.
Literal make_result(const FoldNode& node, graph::DType dtype, const graph::Shape& shape);

/// The numpy broadcast of two shapes; NotFoldable when there is none.
graph::Shape broadcast(const graph::Shape& a, const graph::Shape& b);

/// Row-major strides in elements; 0 where `shape` broadcasts to `target` (aligned on the right).
std::vector<std::size_t> broadcast_strides(const graph::Shape& shape, const graph::Shape& target);
std::vector<std::size_t> strides_of(const graph::Shape& shape);

/// Calls visit(flat index, offset) for every index of `shape` in row-major order, where
/// offset = sum of index[d] * strides[d].
template <class Visit>
void for_each_offset(const graph::Shape& shape, const std::vector<std::size_t>& strides,
                     Visit visit) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    std::vector<std::int64_t> index(shape.size());
    std::size_t offset = 0;
    for (std::size_t flat = 0; flat < count; ++flat) {
        visit(flat, offset);
        for (std::size_t d = shape.size(); d-- > 0;) {
            offset += strides[d];
            if (++index[d] < shape[d]) break;
            offset -= strides[d] * static_cast<std::size_t>(shape[d]);
            index[d] = 0;
        }
    }
}

/// result[flat] = source[from] for one element, whatever the kind of the two.
void copy_element(Literal& result, std::size_t flat, const Literal& source, std::size_t from);

/// Stores a number as the literal's dtype holds it; NotFoldable when it does not fit.
void store(Literal& result, std::size_t flat, std::int64_t value);
void store(Literal& result, std::size_t flat, double value);

}  // namespace partita::importers
