// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/mlir_text.h"

#include <fmt/format.h>

#include <cctype>

namespace partita::plan {

using graph::DType;

namespace {

std::string_view element_type(DType dtype) {
    switch (dtype) {
    case DType::undefined: return "!onnx.undefined";
    case DType::float32: return "f32";
    case DType::uint8: return "ui8";
    case DType::int8: return "i8";
    case DType::uint16: return "ui16";
    case DType::int16: return "i16";
    case DType::int32: return "i32";
    case DType::int64: return "i64";
    case DType::string: return "!onnx.string";
    case DType::boolean: return "i1";
    case DType::float16: return "f16";
    case DType::float64: return "f64";
    case DType::uint32: return "ui32";
    case DType::uint64: return "ui64";
    case DType::complex64: return "complex<f32>";
    case DType::complex128: return "complex<f64>";
    case DType::bfloat16: return "bf16";
    case DType::float8e4m3fn: return "f8E4M3FN";
    case DType::float8e4m3fnuz: return "f8E4M3FNUZ";
    case DType::float8e5m2: return "f8E5M2";
    case DType::float8e5m2fnuz: return "f8E5M2FNUZ";
    case DType::uint4: return "ui4";
    case DType::int4: return "i4";
    case DType::float4e2m1: return "f4E2M1FN";
    case DType::float8e8m0: return "f8E8M0FNU";
    case DType::uint2: return "ui2";
    case DType::int2: return "i2";
    }
    return {};
}

}  // namespace

std::string mlir_quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\' || byte < ' ' || byte == 0x7F) {
            result += fmt::format("\\{:02X}", byte);
        } else {
            result += c;
        }
    }
    return result + '"';
}

std::string mlir_type(const graph::Tensor& tensor) {
    std::string text = "tensor<";
    for (const std::int64_t extent : tensor.shape) text += fmt::format("{}x", extent);
    return fmt::format("{}{}>", text, element_type(tensor.dtype));
}

std::string mlir_op_name(const graph::Op& op) {
    std::string name = (op.domain.empty() ? "onnx" : op.domain) + '.' + op.type;
    for (char& c : name) {
        if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
    }
    return '"' + name + '"';
}

}  // namespace partita::plan
