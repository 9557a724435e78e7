// SPDX-License-Identifier: Apache-2.0
//
// A literal: the known contents of a small tensor, as shape arithmetic needs them. Integers and
// booleans are kept as int64, floating-point numbers as double, rounded to their dtype after each
// operation so that a target computed through float32 comes out as it does at run time.
//
//     f(literal) is a literal of at most `limit` elements; everything else stays an op
//
// Strings, complex numbers, float8 and uint64 above 2^63 - 1 are never literals.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "graph/dtype.h"
#include "graph/tensor.h"

namespace partita::importers {

/// Dims of the tensors that are read; more than numpy and PyTorch know of. Past 55 dims all others
/// have one position, as no memory holds 2^55 elements.
inline constexpr int kMaxRank = 64;

struct Literal {
    graph::DType dtype = graph::DType::int64;
    graph::Shape shape;
    std::variant<std::vector<std::int64_t>, std::vector<double>> values;

    [[nodiscard]] bool integral() const { return values.index() == 0; }
    [[nodiscard]] std::size_t size() const;
    /// Element `i`; `integer` only of integral literals.
    [[nodiscard]] std::int64_t integer(std::size_t i) const;
    [[nodiscard]] double real(std::size_t i) const;
};

/// Whether a dtype's elements are kept as int64 (integers, booleans) or as double.
bool is_integral(graph::DType dtype);
bool can_be_literal(graph::DType dtype);

/// Literals of `shape`, to be filled; all zero.
Literal make_literal(graph::DType dtype, graph::Shape shape);

/// `value` as `dtype` stores it, rounded to nearest, ties to even.
double round_to(graph::DType dtype, double value);
/// False when an element of `dtype` cannot hold `value`.
bool fits(graph::DType dtype, std::int64_t value);

/// IEEE 754 binary16 and bfloat16 from and to their bits.
double half_to_double(std::uint16_t bits);
double bfloat16_to_double(std::uint16_t bits);
std::uint16_t double_to_half(double value);
std::uint16_t double_to_bfloat16(double value);

/// Row-major little-endian bytes, 4-bit types packed two to a byte, low half first.
std::vector<std::byte> to_bytes(const Literal& literal);

/// The number that these bytes are, float16 to float64, little-endian.
double to_real(graph::DType dtype, std::span<const std::byte> bytes);

/// Product of extents, or nullopt when one is negative or the product exceeds `limit`.
std::optional<std::int64_t> element_count(const graph::Shape& shape, std::int64_t limit);

/// Whether a literal may have this shape: at most kMaxRank dims and `limit` elements, where an
/// empty dim counts as one position: loops over the other dims must end too.
bool literal_fits(const graph::Shape& shape, std::int64_t limit);

}  // namespace partita::importers
