// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/npy_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <istream>
#include <iterator>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "importers/onnx/onnx_types.h"

namespace partita::importers {

namespace {

using graph::DType;

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  ///< of what comes behind the header

struct TypeRow {
    std::string_view name;
    DType dtype;
};

constexpr std::array kTypes = {
    TypeRow{"<f4", DType::float32},   TypeRow{"<f8", DType::float64},
    TypeRow{"<f2", DType::float16},   TypeRow{"|b1", DType::boolean},
    TypeRow{"|i1", DType::int8},      TypeRow{"<i2", DType::int16},
    TypeRow{"<i4", DType::int32},     TypeRow{"<i8", DType::int64},
    TypeRow{"|u1", DType::uint8},     TypeRow{"<u2", DType::uint16},
    TypeRow{"<u4", DType::uint32},    TypeRow{"<u8", DType::uint64},
    TypeRow{"<c8", DType::complex64}, TypeRow{"<c16", DType::complex128},
};

/// Reads the header, a Python dict such as {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class Header {
public:
    Header(std::string_view text, const std::filesystem::path& file) : text_(text), file_(file) {}

    [[noreturn]] void fail(std::string_view what) const {
        throw InputError(
            fmt::format("{}: {}. Write it again: numpy.save(file, numpy.ascontiguousarray(array)).",
                        file_.string(), what));
    }

    [[nodiscard]] DType dtype() const {
        const std::string_view given = value("descr");
        const std::string_view name = given.substr(0, given.find('\'', 1));
        const auto* const row = std::ranges::find_if(
            kTypes, [&](const TypeRow& each) { return name == fmt::format("'{}", each.name); });
        if (row == kTypes.end()) {
            fail("expected an array of numbers in this machine's order of bytes");
        }
        return row->dtype;
    }

    [[nodiscard]] bool is_row_major() const { return value("fortran_order").starts_with("False"); }

    [[nodiscard]] graph::Shape shape() const {
        std::string_view rest = value("shape");
        if (!rest.starts_with('(')) fail("expected a shape such as (3, 4)");
        rest.remove_prefix(1);
        graph::Shape shape;
        for (;;) {
            rest.remove_prefix(std::min(rest.find_first_not_of(", "), rest.size()));
            if (rest.starts_with(')')) return shape;
            std::int64_t extent = 0;
            const auto [end, error] =
                std::from_chars(rest.data(), rest.data() + rest.size(), extent);
            if (error != std::errc() || extent < 0) fail("expected a shape such as (3, 4)");
            rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
            shape.push_back(extent);
        }
    }

private:
    /// What stands behind a key.
    [[nodiscard]] std::string_view value(std::string_view key) const {
        const std::string quoted = fmt::format("'{}':", key);
        const std::size_t found = text_.find(quoted);
        if (found == std::string_view::npos) fail(fmt::format("its header has no {}", key));
        std::string_view rest = text_.substr(found + quoted.size());
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        return rest;
    }

    std::string_view text_;
    const std::filesystem::path& file_;
};

std::size_t little_endian(std::string_view bytes) {
    std::size_t number = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) {
        number = number << 8U | static_cast<unsigned char>(bytes[i]);
    }
    return number;
}

/// Two bytes of each number become the upper ones of four.
std::vector<std::byte> widened(const std::vector<std::byte>& bfloat16) {
    std::vector<std::byte> wide(2 * bfloat16.size());
    for (std::size_t i = 0; i + 1 < bfloat16.size(); i += 2) {
        wide[2 * i + 2] = bfloat16[i];
        wide[2 * i + 3] = bfloat16[i + 1];
    }
    return wide;
}

}  // namespace

onnx::TensorProto parse_npy(std::string_view bytes, const std::filesystem::path& file) {
    constexpr std::size_t kVersionEnd = 8;
    const Header none("", file);
    if (bytes.size() < kVersionEnd + 4 || !bytes.starts_with(kMagic)) {
        none.fail("expected an array of numpy's, got something else");
    }
    const std::size_t digits = bytes[6] == 1 ? 2 : 4;  // of the header's length
    const std::size_t begin = kVersionEnd + digits;
    const std::size_t length = little_endian(bytes.substr(kVersionEnd, digits));
    if (length > bytes.size() - begin) none.fail("it ends inside of its header");
    const Header header(bytes.substr(begin, length), file);
    if (!header.is_row_major()) header.fail("expected rows one after the other, got columns");
    onnx::TensorProto proto;
    proto.set_data_type(static_cast<std::int32_t>(header.dtype()));
    for (const std::int64_t extent : header.shape()) proto.add_dims(extent);
    proto.set_raw_data(std::string(bytes.substr(begin + length)));
    const std::string fault = fault_of(proto);
    if (!fault.empty()) header.fail(fault);
    return proto;
}

std::optional<onnx::TensorProto> read_tensor_message(std::istream& stream,
                                                     const std::filesystem::path& file) {
    if (file.extension() == ".npy") {
        return parse_npy(std::string(std::istreambuf_iterator<char>(stream), {}), file);
    }
    onnx::TensorProto proto;
    if (!proto.ParseFromIstream(&stream)) return std::nullopt;
    return proto;
}

std::optional<std::string> to_npy(const graph::HostTensor& tensor) {
    const bool is_widened = tensor.dtype == DType::bfloat16;
    const DType dtype = is_widened ? DType::float32 : tensor.dtype;
    const auto* const row = std::ranges::find(kTypes, dtype, &TypeRow::dtype);
    if (row == kTypes.end()) return std::nullopt;
    std::string header =
        fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", row->name,
                    fmt::join(tensor.shape, ", "), tensor.shape.size() == 1 ? "," : "");
    std::string file(kMagic);
    file += {'\x01', '\x00'};
    const std::size_t before = file.size() + 2;
    const std::size_t padded = (before + header.size() + kAlignment) / kAlignment * kAlignment;
    header.resize(padded - before - 1, ' ');
    header += '\n';
    file += static_cast<char>(header.size() & 0xFFU);
    file += static_cast<char>(header.size() >> 8U);
    file += header;
    const std::vector<std::byte> contents = is_widened ? widened(tensor.bytes) : tensor.bytes;
    const std::size_t begin = file.size();
    file.resize(begin + contents.size());
    if (!contents.empty()) std::memcpy(file.data() + begin, contents.data(), contents.size());
    return file;
}

}  // namespace partita::importers
