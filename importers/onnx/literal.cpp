// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/literal.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace partita::importers {

using graph::DType;

std::size_t Literal::size() const {
    return std::visit([](const auto& list) { return list.size(); }, values);
}

std::int64_t Literal::integer(std::size_t i) const {
    return std::get<0>(values)[i];
}

double Literal::real(std::size_t i) const {
    if (integral()) return static_cast<double>(std::get<0>(values)[i]);
    return std::get<1>(values)[i];
}

bool is_integral(DType dtype) {
    switch (dtype) {
    case DType::boolean:
    case DType::uint2:
    case DType::int2:
    case DType::uint4:
    case DType::int4:
    case DType::uint8:
    case DType::int8:
    case DType::uint16:
    case DType::int16:
    case DType::uint32:
    case DType::int32:
    case DType::uint64:
    case DType::int64: return true;
    case DType::undefined:
    case DType::string:
    case DType::float16:
    case DType::float32:
    case DType::float64:
    case DType::bfloat16:
    case DType::complex64:
    case DType::complex128:
    case DType::float8e4m3fn:
    case DType::float8e4m3fnuz:
    case DType::float8e5m2:
    case DType::float8e5m2fnuz:
    case DType::float4e2m1:
    case DType::float8e8m0: return false;
    }
    return false;
}

bool can_be_literal(DType dtype) {
    return is_integral(dtype) || dtype == DType::float32 || dtype == DType::float64 ||
           dtype == DType::float16 || dtype == DType::bfloat16;
}

Literal make_literal(DType dtype, graph::Shape shape) {
    Literal literal{.dtype = dtype, .shape = std::move(shape), .values = {}};
    std::size_t count = 1;
    for (const std::int64_t extent : literal.shape) count *= static_cast<std::size_t>(extent);
    if (is_integral(dtype)) {
        literal.values = std::vector<std::int64_t>(count);
    } else {
        literal.values = std::vector<double>(count);
    }
    return literal;
}

double half_to_double(std::uint16_t bits) {
    const double sign = (bits & 0x8000u) != 0 ? -1.0 : 1.0;
    const int exponent = (bits >> 10) & 0x1f;
    const int fraction = bits & 0x3ff;
    if (exponent == 0x1f) {
        return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                             : sign * std::numeric_limits<double>::infinity();
    }
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(fraction + 1024, exponent - 25);
}

double bfloat16_to_double(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t double_to_half(double value) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00u);
    const double magnitude = std::fabs(value);
    if (magnitude == 0) return sign;
    // 65520 is the middle between the largest half and the next power of two.
    if (magnitude >= 65520.0) return static_cast<std::uint16_t>(sign | 0x7c00u);
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    // Units of the last place: 2^(exponent - 11), but never below that of the subnormals.
    const int unit = std::max(exponent - 11, -24);
    const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -unit)));
    // 1024 units are the smallest normal number of the binade; a carry moves to the next by itself.
    const std::uint32_t bits = unit == -24 ? units : ((unit + 24u) << 10) + units;
    return static_cast<std::uint16_t>(sign | bits);
}

std::uint16_t double_to_bfloat16(double value) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

double round_to(DType dtype, double value) {
    if (dtype == DType::float32) return static_cast<float>(value);
    if (dtype == DType::float16) return half_to_double(double_to_half(value));
    if (dtype == DType::bfloat16) return bfloat16_to_double(double_to_bfloat16(value));
    return value;
}

bool fits(DType dtype, std::int64_t value) {
    const int bits = graph::bits_of(dtype);
    switch (dtype) {
    case DType::boolean: return value == 0 || value == 1;
    case DType::uint2:
    case DType::uint4:
    case DType::uint8:
    case DType::uint16:
    case DType::uint32: return value >= 0 && value < (std::int64_t{1} << bits);
    case DType::int2:
    case DType::int4:
    case DType::int8:
    case DType::int16:
    case DType::int32:
        return value >= -(std::int64_t{1} << (bits - 1)) && value < (std::int64_t{1} << (bits - 1));
    case DType::uint64: return value >= 0;
    default: return true;
    }
}

namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof value);
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

void append_real(std::vector<std::byte>& bytes, DType dtype, double value) {
    if (dtype == DType::float64) return append(bytes, value);
    if (dtype == DType::float16) return append(bytes, double_to_half(value));
    if (dtype == DType::bfloat16) return append(bytes, double_to_bfloat16(value));
    append(bytes, static_cast<float>(value));
}

template <class T>
T first(std::span<const std::byte> bytes) {
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

}  // namespace

double to_real(DType dtype, std::span<const std::byte> bytes) {
    if (dtype == DType::float64) return first<double>(bytes);
    if (dtype == DType::float16) return half_to_double(first<std::uint16_t>(bytes));
    if (dtype == DType::bfloat16) return bfloat16_to_double(first<std::uint16_t>(bytes));
    return first<float>(bytes);
}

std::vector<std::byte> to_bytes(const Literal& literal) {
    const int bits = graph::bits_of(literal.dtype);
    const std::size_t count = literal.size();
    std::vector<std::byte> bytes;
    if (!literal.integral()) {
        for (std::size_t i = 0; i < count; ++i) append_real(bytes, literal.dtype, literal.real(i));
        return bytes;
    }
    if (bits < 8) {
        const std::size_t per_byte = 8u / static_cast<unsigned>(bits);
        bytes.resize((count + per_byte - 1) / per_byte);
        const auto mask = static_cast<std::uint64_t>((1 << bits) - 1);
        for (std::size_t i = 0; i < count; ++i) {
            const auto part = (static_cast<std::uint64_t>(literal.integer(i)) & mask)
                              << ((i % per_byte) * static_cast<unsigned>(bits));
            bytes[i / per_byte] |= static_cast<std::byte>(part);
        }
        return bytes;
    }
    // Little-endian: the low bytes of the two's complement are the narrower integer.
    const auto width = static_cast<std::size_t>(bits / 8);
    bytes.resize(count * width);
    for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t value = literal.integer(i);
        std::memcpy(bytes.data() + i * width, &value, width);
    }
    return bytes;
}

std::optional<std::int64_t> element_count(const graph::Shape& shape, std::int64_t limit) {
    if (std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; })) {
        return std::nullopt;
    }
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) {
        if (extent > limit / count) return std::nullopt;
        count *= extent;
    }
    return count;
}

bool literal_fits(const graph::Shape& shape, std::int64_t limit) {
    if (shape.size() > static_cast<std::size_t>(kMaxRank)) return false;
    graph::Shape filled = shape;
    std::replace(filled.begin(), filled.end(), std::int64_t{0}, std::int64_t{1});
    return element_count(filled, limit).has_value();
}

}  // namespace partita::importers
