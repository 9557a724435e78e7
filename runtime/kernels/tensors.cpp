// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include <ATen/Functions.h>

#include "base/error.h"

namespace partita::runtime {

using graph::DType;

namespace {

struct TypeRow {
    DType dtype;
    at::ScalarType type;
};
constexpr std::array kTypes = {
    TypeRow{DType::float32, at::kFloat},
    TypeRow{DType::uint8, at::kByte},
    TypeRow{DType::int8, at::kChar},
    TypeRow{DType::uint16, at::kUInt16},
    TypeRow{DType::int16, at::kShort},
    TypeRow{DType::int32, at::kInt},
    TypeRow{DType::int64, at::kLong},
    TypeRow{DType::boolean, at::kBool},
    TypeRow{DType::float16, at::kHalf},
    TypeRow{DType::float64, at::kDouble},
    TypeRow{DType::uint32, at::kUInt32},
    TypeRow{DType::uint64, at::kUInt64},
    TypeRow{DType::complex64, at::kComplexFloat},
    TypeRow{DType::complex128, at::kComplexDouble},
    TypeRow{DType::bfloat16, at::kBFloat16},
    TypeRow{DType::float8e4m3fn, at::kFloat8_e4m3fn},
    TypeRow{DType::float8e4m3fnuz, at::kFloat8_e4m3fnuz},
    TypeRow{DType::float8e5m2, at::kFloat8_e5m2},
    TypeRow{DType::float8e5m2fnuz, at::kFloat8_e5m2fnuz},
    TypeRow{DType::float8e8m0, at::kFloat8_e8m0fnu},
    // Held one to a byte; dtype_of() finds the rows above first.
    TypeRow{DType::uint4, at::kByte},
    TypeRow{DType::int4, at::kChar},
    TypeRow{DType::uint2, at::kByte},
    TypeRow{DType::int2, at::kChar},
};

bool is_packed(DType dtype) {
    return graph::bits_of(dtype) < 8;
}

/// One element of a packed tensor, its sign extended where it has one.
std::uint8_t unpacked(const std::vector<std::byte>& bytes, std::size_t index, DType dtype) {
    const auto bits = static_cast<unsigned>(graph::bits_of(dtype));
    const std::size_t per_byte = 8 / bits;
    const auto shift = static_cast<unsigned>(index % per_byte) * bits;
    const unsigned mask = (1U << bits) - 1;
    unsigned value = (static_cast<unsigned>(bytes[index / per_byte]) >> shift) & mask;
    const bool is_signed = dtype == DType::int4 || dtype == DType::int2;
    if (is_signed && (value >> (bits - 1)) != 0) value |= 0xFFU & ~mask;
    return static_cast<std::uint8_t>(value);
}

void pack(const std::uint8_t* values, std::size_t count, DType dtype,
          std::vector<std::byte>& bytes) {
    const auto bits = static_cast<unsigned>(graph::bits_of(dtype));
    const std::size_t per_byte = 8 / bits;
    bytes.assign((count + per_byte - 1) / per_byte, std::byte{0});
    for (std::size_t i = 0; i < count; ++i) {
        const unsigned value = values[i] & ((1U << bits) - 1);
        bytes[i / per_byte] |=
            static_cast<std::byte>(value << (static_cast<unsigned>(i % per_byte) * bits));
    }
}

}  // namespace

std::optional<at::ScalarType> scalar_type_of(DType dtype) {
    const auto* const row =
        std::ranges::find_if(kTypes, [&](const TypeRow& each) { return each.dtype == dtype; });
    if (row == kTypes.end()) return std::nullopt;
    return row->type;
}

DType dtype_of(at::ScalarType type) {
    const auto* const row =
        std::ranges::find_if(kTypes, [&](const TypeRow& each) { return each.type == type; });
    return row == kTypes.end() ? DType::undefined : row->dtype;
}

at::Tensor to_aten(const graph::HostTensor& tensor) {
    const auto type = scalar_type_of(tensor.dtype);
    if (!type) {
        throw InputError("tensor '" + tensor.name + "': elements of type " +
                         std::string(graph::name_of(tensor.dtype)) +
                         " cannot be computed with. Cast them in the model.");
    }
    const graph::Tensor described{
        .name = tensor.name, .shape = tensor.shape, .dtype = tensor.dtype, .producer = {}};
    const auto count = static_cast<std::size_t>(described.elements());
    if (tensor.bytes.size() != static_cast<std::size_t>(described.bytes().raw())) {
        throw InputError("tensor '" + tensor.name + "': has " +
                         std::to_string(tensor.bytes.size()) + " bytes, its shape means " +
                         std::to_string(described.bytes().raw()) + ". Write it again.");
    }
    at::Tensor result = at::empty(tensor.shape, at::TensorOptions().dtype(type));
    if (is_packed(tensor.dtype)) {
        auto* const out = static_cast<std::uint8_t*>(result.mutable_data_ptr());
        for (std::size_t i = 0; i < count; ++i) out[i] = unpacked(tensor.bytes, i, tensor.dtype);
    } else if (count > 0) {
        std::memcpy(result.mutable_data_ptr(), tensor.bytes.data(), tensor.bytes.size());
    }
    return result;
}

graph::HostTensor to_host(const at::Tensor& tensor, DType dtype) {
    const at::Tensor dense = tensor.detach().cpu().contiguous();
    graph::HostTensor result{.name = {},
                             .dtype = dtype,
                             .shape = {dense.sizes().begin(), dense.sizes().end()},
                             .bytes = {}};
    const auto count = static_cast<std::size_t>(dense.numel());
    if (is_packed(dtype)) {
        pack(static_cast<const std::uint8_t*>(dense.const_data_ptr()), count, dtype, result.bytes);
        return result;
    }
    result.bytes.resize(dense.nbytes());
    if (count > 0) std::memcpy(result.bytes.data(), dense.const_data_ptr(), dense.nbytes());
    return result;
}

at::Tensor integer_tensor(const std::vector<std::int64_t>& values, const graph::Shape& shape) {
    at::Tensor result = at::empty(shape, at::TensorOptions().dtype(at::kLong));
    if (!values.empty()) {
        std::memcpy(result.mutable_data_ptr(), values.data(), values.size() * sizeof values[0]);
    }
    return result;
}

}  // namespace partita::runtime
