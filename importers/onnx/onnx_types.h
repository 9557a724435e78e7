// SPDX-License-Identifier: Apache-2.0
//
// Between ONNX's protobuf messages and our own types: dtypes, shapes, literals. A shape read from a
// message has -1 where the message leaves an extent open (symbolic, or without name and value).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <onnx/onnx_pb.h>

#include "graph/dtype.h"
#include "graph/tensor.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

/// ONNX numbers its types as graph::DType does; `undefined` for numbers that ONNX does not know.
graph::DType dtype_from_onnx(std::int32_t elem_type);

/// nullopt: not a tensor, or its rank is not known.
std::optional<graph::Shape> shape_of(const onnx::TypeProto& type);
/// True when the type is a tensor whose extents are all known.
bool is_static(const onnx::TypeProto& type);
bool is_tensor(const onnx::TypeProto& type);
graph::DType dtype_of(const onnx::TypeProto& type);

/// A tensor type; extents of -1 stay open.
onnx::TypeProto tensor_type(graph::DType dtype, const graph::Shape& shape);
void set_extent(onnx::TypeProto& type, int dim, std::int64_t extent);

graph::Shape dims_of(const onnx::TensorProto& tensor);
bool is_external(const onnx::TensorProto& tensor);

/// Elements in the message's typed field or raw data, whichever its dtype uses, for inline data.
/// Returns what is wrong with the tensor (dtype, dims or amount of data), or an empty string.
std::string fault_of(const onnx::TensorProto& tensor);

/// The contents, unless external, of a dtype that no literal has, or of more than `limit` elements.
/// `tensor` has no fault.
std::optional<Literal> literal_of(const onnx::TensorProto& tensor, std::int64_t limit);
onnx::TensorProto to_proto(const Literal& literal);

}  // namespace partita::importers
