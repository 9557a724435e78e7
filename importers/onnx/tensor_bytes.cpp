// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/tensor_bytes.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "importers/onnx/onnx_types.h"

namespace partita::importers {

namespace {

static_assert(std::endian::native == std::endian::little, "raw data is little-endian");

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// Of a tensor whose elements are in a typed field.
std::vector<std::byte> typed_bytes(const onnx::TensorProto& tensor) {
    std::vector<std::byte> bytes;
    for (const float value : tensor.float_data()) append(bytes, value);
    for (const double value : tensor.double_data()) append(bytes, value);
    for (const std::int64_t value : tensor.int64_data()) append(bytes, value);
    const int bits = graph::bits_of(dtype_from_onnx(tensor.data_type()));
    for (const std::uint64_t value : tensor.uint64_data()) {
        bits == 32 ? append(bytes, static_cast<std::uint32_t>(value)) : append(bytes, value);
    }
    for (const std::int32_t value : tensor.int32_data()) {
        if (bits <= 8) {
            append(bytes, static_cast<std::uint8_t>(value));
        } else if (bits == 16) {
            append(bytes, static_cast<std::uint16_t>(value));
        } else {
            append(bytes, value);
        }
    }
    return bytes;
}

}  // namespace

std::vector<std::byte> inline_bytes(const onnx::TensorProto& tensor) {
    if (!tensor.has_raw_data()) return typed_bytes(tensor);
    std::vector<std::byte> bytes(tensor.raw_data().size());
    if (!bytes.empty()) std::memcpy(bytes.data(), tensor.raw_data().data(), bytes.size());
    return bytes;
}

}  // namespace partita::importers
