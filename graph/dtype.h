// SPDX-License-Identifier: Apache-2.0
//
// Element types of tensors, those of ONNX (IR 14). One table gives name and width.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace partita::graph {

enum class DType : std::uint8_t {
    undefined,
    float32,
    uint8,
    int8,
    uint16,
    int16,
    int32,
    int64,
    string,
    boolean,
    float16,
    float64,
    uint32,
    uint64,
    complex64,
    complex128,
    bfloat16,
    float8e4m3fn,
    float8e4m3fnuz,
    float8e5m2,
    float8e5m2fnuz,
    uint4,
    int4,
    float4e2m1,
    float8e8m0,
    uint2,
    int2,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::int2) + 1;

/// What matrix units round the operands of products to, where that is less than these have.
enum class ProductType : std::uint8_t {
    as_stored,
    tf32,   ///< of float32: 8 bits of exponent, 10 of mantissa
    float8  ///< of the rest, scaled tensor by tensor (Micikevicius et al., FP8 Formats, 2022)
};
inline constexpr int kProductTypeCount = static_cast<int>(ProductType::float8) + 1;
std::string_view name_of(ProductType type);
/// Of those that are not as_stored.
std::optional<ProductType> product_type_from_name(std::string_view name);

/// Bits per element; 4-bit types pack two to a byte. A string counts as 64 bits (its length is
/// unknown while planning), undefined as 0.
int bits_of(DType dtype);
std::string_view name_of(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
bool is_floating_point(DType dtype);
/// Of what networks are trained and served in: float32, float16, bfloat16.
bool is_precision(DType dtype);

}  // namespace partita::graph
