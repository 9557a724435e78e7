// SPDX-License-Identifier: Apache-2.0
#include "graph/dtype.h"

#include <array>

namespace partita::graph {

namespace {

struct DTypeRow {
    DType dtype;
    std::string_view name;
    int bits;
    bool floating_point;
};

// In the order of the enumeration.
constexpr std::array<DTypeRow, kDTypeCount> kDTypes{{
    {DType::undefined, "undefined", 0, false},
    {DType::float32, "float32", 32, true},
    {DType::uint8, "uint8", 8, false},
    {DType::int8, "int8", 8, false},
    {DType::uint16, "uint16", 16, false},
    {DType::int16, "int16", 16, false},
    {DType::int32, "int32", 32, false},
    {DType::int64, "int64", 64, false},
    {DType::string, "string", 64, false},
    {DType::boolean, "bool", 8, false},
    {DType::float16, "float16", 16, true},
    {DType::float64, "float64", 64, true},
    {DType::uint32, "uint32", 32, false},
    {DType::uint64, "uint64", 64, false},
    {DType::complex64, "complex64", 64, false},
    {DType::complex128, "complex128", 128, false},
    {DType::bfloat16, "bfloat16", 16, true},
    {DType::float8e4m3fn, "float8e4m3fn", 8, true},
    {DType::float8e4m3fnuz, "float8e4m3fnuz", 8, true},
    {DType::float8e5m2, "float8e5m2", 8, true},
    {DType::float8e5m2fnuz, "float8e5m2fnuz", 8, true},
    {DType::uint4, "uint4", 4, false},
    {DType::int4, "int4", 4, false},
    {DType::float4e2m1, "float4e2m1", 4, true},
    {DType::float8e8m0, "float8e8m0", 8, true},
    {DType::uint2, "uint2", 2, false},
    {DType::int2, "int2", 2, false},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < kDTypes.size(); ++i) {
        if (kDTypes[i].dtype != static_cast<DType>(i)) return false;
    }
    return true;
}
static_assert(in_order());

const DTypeRow& row_of(DType dtype) {
    return kDTypes[static_cast<std::size_t>(dtype)];
}

}  // namespace

std::string_view name_of(ProductType type) {
    constexpr std::array<std::string_view, kProductTypeCount> kNames{"as-stored", "tf32", "float8"};
    return kNames[static_cast<std::size_t>(type)];
}

std::optional<ProductType> product_type_from_name(std::string_view name) {
    for (const ProductType type : {ProductType::tf32, ProductType::float8}) {
        if (name_of(type) == name) return type;
    }
    return std::nullopt;
}

int bits_of(DType dtype) {
    return row_of(dtype).bits;
}

std::string_view name_of(DType dtype) {
    return row_of(dtype).name;
}

std::optional<DType> dtype_from_name(std::string_view name) {
    for (const DTypeRow& row : kDTypes) {
        if (row.name == name) return row.dtype;
    }
    return std::nullopt;
}

bool is_floating_point(DType dtype) {
    return row_of(dtype).floating_point;
}

bool is_precision(DType dtype) {
    return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
}

}  // namespace partita::graph
