// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/onnx_types.h"

#include <cstring>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace partita::importers {

using graph::DType;
using graph::Shape;

DType dtype_from_onnx(std::int32_t elem_type) {
    static_assert(static_cast<int>(DType::float32) == onnx::TensorProto::FLOAT);
    static_assert(static_cast<int>(DType::bfloat16) == onnx::TensorProto::BFLOAT16);
    static_assert(static_cast<int>(DType::int2) == onnx::TensorProto::INT2);
    if (elem_type < 0 || elem_type >= graph::kDTypeCount) return DType::undefined;
    return static_cast<DType>(elem_type);
}

namespace {

const onnx::TensorShapeProto* shape_proto(const onnx::TypeProto& type) {
    if (type.has_tensor_type() && type.tensor_type().has_shape()) {
        return &type.tensor_type().shape();
    }
    if (type.has_sparse_tensor_type() && type.sparse_tensor_type().has_shape()) {
        return &type.sparse_tensor_type().shape();
    }
    return nullptr;
}

}  // namespace

std::optional<Shape> shape_of(const onnx::TypeProto& type) {
    const onnx::TensorShapeProto* proto = shape_proto(type);
    if (proto == nullptr) return std::nullopt;
    Shape shape;
    shape.reserve(static_cast<std::size_t>(proto->dim_size()));
    for (const auto& dim : proto->dim())
        shape.push_back(dim.has_dim_value() ? dim.dim_value() : -1);
    return shape;
}

bool is_static(const onnx::TypeProto& type) {
    const onnx::TensorShapeProto* proto = shape_proto(type);
    if (proto == nullptr) return false;
    for (const auto& dim : proto->dim()) {
        if (!dim.has_dim_value()) return false;
    }
    return true;
}

bool is_tensor(const onnx::TypeProto& type) {
    return type.has_tensor_type() || type.has_sparse_tensor_type();
}

DType dtype_of(const onnx::TypeProto& type) {
    if (type.has_tensor_type()) return dtype_from_onnx(type.tensor_type().elem_type());
    if (type.has_sparse_tensor_type())
        return dtype_from_onnx(type.sparse_tensor_type().elem_type());
    return DType::undefined;
}

onnx::TypeProto tensor_type(DType dtype, const Shape& shape) {
    onnx::TypeProto type;
    auto* tensor = type.mutable_tensor_type();
    if (dtype != DType::undefined) tensor->set_elem_type(static_cast<std::int32_t>(dtype));
    auto* proto = tensor->mutable_shape();
    for (const std::int64_t extent : shape) {
        auto* dim = proto->add_dim();
        if (extent >= 0) dim->set_dim_value(extent);
    }
    return type;
}

void set_extent(onnx::TypeProto& type, int dim, std::int64_t extent) {
    auto* shape = type.has_sparse_tensor_type() ? type.mutable_sparse_tensor_type()->mutable_shape()
                                                : type.mutable_tensor_type()->mutable_shape();
    auto* proto = shape->mutable_dim(dim);
    proto->Clear();
    if (extent >= 0) proto->set_dim_value(extent);
}

Shape dims_of(const onnx::TensorProto& tensor) {
    return {tensor.dims().begin(), tensor.dims().end()};
}

bool is_external(const onnx::TensorProto& tensor) {
    return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

namespace {

/// Entries of the typed field that hold `count` elements. Types below 8 bits are packed.
std::int64_t typed_entries(const onnx::TensorProto& tensor) {
    switch (dtype_from_onnx(tensor.data_type())) {
    case DType::float32:
    case DType::complex64: return tensor.float_data_size();
    case DType::float64:
    case DType::complex128: return tensor.double_data_size();
    case DType::int64: return tensor.int64_data_size();
    case DType::uint32:
    case DType::uint64: return tensor.uint64_data_size();
    case DType::string: return tensor.string_data_size();
    case DType::undefined: return 0;
    default: return tensor.int32_data_size();
    }
}

std::int64_t all_typed_entries(const onnx::TensorProto& tensor) {
    return std::int64_t{tensor.float_data_size()} + tensor.double_data_size() +
           tensor.int32_data_size() + tensor.int64_data_size() + tensor.uint64_data_size() +
           tensor.string_data_size();
}

std::int64_t entries_needed(DType dtype, std::int64_t count) {
    if (dtype == DType::complex64 || dtype == DType::complex128) return 2 * count;
    const int bits = graph::bits_of(dtype);
    if (bits < 8) return (count * bits + 7) / 8;
    return count;
}

}  // namespace

std::string fault_of(const onnx::TensorProto& tensor) {
    const DType dtype = dtype_from_onnx(tensor.data_type());
    if (dtype == DType::undefined) {
        return fmt::format("expected an element type of ONNX, got {}", tensor.data_type());
    }
    if (tensor.dims_size() > kMaxRank) {
        return fmt::format("expected at most {} dims, got {}", kMaxRank, tensor.dims_size());
    }
    // The product with the width of an element must stay far from 2^63.
    const Shape shape = dims_of(tensor);
    const auto count = element_count(shape, std::numeric_limits<std::int64_t>::max() / 256);
    if (!count) {
        return fmt::format("expected extents >= 0 of fewer than 2^55 elements in all, got [{}]",
                           fmt::join(shape, ", "));
    }
    if (is_external(tensor)) return {};
    if (tensor.has_raw_data()) {
        const std::int64_t bytes = bytes_for(*count, graph::bits_of(dtype)).raw();
        if (dtype != DType::string &&
            static_cast<std::int64_t>(tensor.raw_data().size()) == bytes) {
            return {};
        }
        return fmt::format("expected {} bytes of data for shape [{}], got {}", bytes,
                           fmt::join(shape, ", "), tensor.raw_data().size());
    }
    const std::int64_t needed = entries_needed(dtype, *count);
    const std::int64_t entries = typed_entries(tensor);
    if (all_typed_entries(tensor) != entries) {
        return fmt::format("expected elements in the field of type {} alone",
                           graph::name_of(dtype));
    }
    if (entries == needed) return {};
    return fmt::format("expected {} elements of data for shape [{}], got {}", needed,
                       fmt::join(shape, ", "), entries);
}

namespace {

/// Integer `i` of `bits` bits (a power of two up to 64), little-endian, sign-extended if
/// `is_signed`.
std::int64_t integer_at(const std::string& raw, std::size_t i, int bits, bool is_signed) {
    std::uint64_t value = 0;
    if (bits >= 8) {
        const auto width = static_cast<std::size_t>(bits / 8);
        std::memcpy(&value, raw.data() + i * width, width);
    } else {
        const std::size_t per_byte = 8u / static_cast<unsigned>(bits);
        const auto byte = static_cast<unsigned char>(raw[i / per_byte]);
        value = (byte >> ((i % per_byte) * static_cast<unsigned>(bits))) & ((1u << bits) - 1u);
    }
    if (is_signed && bits < 64 && ((value >> (bits - 1)) & 1u) != 0)
        value |= ~std::uint64_t{0} << bits;
    return static_cast<std::int64_t>(value);
}

bool is_signed(DType dtype) {
    return dtype == DType::int2 || dtype == DType::int4 || dtype == DType::int8 ||
           dtype == DType::int16 || dtype == DType::int32 || dtype == DType::int64;
}

double real_at(const onnx::TensorProto& tensor, DType dtype, std::size_t i) {
    if (tensor.has_raw_data()) {
        const auto size = static_cast<std::size_t>(graph::bits_of(dtype) / 8);
        const std::span<const char> raw = tensor.raw_data();
        return to_real(dtype, std::as_bytes(raw.subspan(i * size, size)));
    }
    const int index = static_cast<int>(i);
    if (dtype == DType::float32) return tensor.float_data(index);
    if (dtype == DType::float64) return tensor.double_data(index);
    const auto bits = static_cast<std::uint16_t>(tensor.int32_data(index));
    return dtype == DType::float16 ? half_to_double(bits) : bfloat16_to_double(bits);
}

std::int64_t typed_integer_at(const onnx::TensorProto& tensor, DType dtype, std::size_t i) {
    const int bits = graph::bits_of(dtype);
    if (dtype == DType::int64) return tensor.int64_data(static_cast<int>(i));
    if (dtype == DType::uint64 || dtype == DType::uint32) {
        return static_cast<std::int64_t>(tensor.uint64_data(static_cast<int>(i)));
    }
    if (bits >= 8) return tensor.int32_data(static_cast<int>(i));
    const std::size_t per_byte = 8u / static_cast<unsigned>(bits);
    const std::string byte(1, static_cast<char>(tensor.int32_data(static_cast<int>(i / per_byte))));
    return integer_at(byte, i % per_byte, bits, is_signed(dtype));
}

}  // namespace

std::optional<Literal> literal_of(const onnx::TensorProto& tensor, std::int64_t limit) {
    const DType dtype = dtype_from_onnx(tensor.data_type());
    const Shape shape = dims_of(tensor);
    if (is_external(tensor) || !can_be_literal(dtype) || !literal_fits(shape, limit)) {
        return std::nullopt;
    }
    Literal literal = make_literal(dtype, shape);
    const std::size_t count = literal.size();
    for (std::size_t i = 0; i < count; ++i) {
        if (!literal.integral()) {
            std::get<1>(literal.values)[i] = real_at(tensor, dtype, i);
            continue;
        }
        std::int64_t value =
            tensor.has_raw_data()
                ? integer_at(tensor.raw_data(), i, graph::bits_of(dtype), is_signed(dtype))
                : typed_integer_at(tensor, dtype, i);
        if (dtype == DType::boolean) value = value != 0;
        if (!fits(dtype, value)) return std::nullopt;
        std::get<0>(literal.values)[i] = value;
    }
    return literal;
}

onnx::TensorProto to_proto(const Literal& literal) {
    onnx::TensorProto proto;
    proto.set_data_type(static_cast<std::int32_t>(literal.dtype));
    for (const std::int64_t extent : literal.shape) proto.add_dims(extent);
    const std::vector<std::byte> bytes = to_bytes(literal);
    proto.set_raw_data(bytes.data(), bytes.size());
    return proto;
}

}  // namespace partita::importers
