// SPDX-License-Identifier: Apache-2.0
//
// The contents of a tensor message as the bytes of a dense tensor.
#pragma once

#include <cstddef>
#include <vector>

#include <onnx/onnx_pb.h>

namespace partita::importers {

/// Of a tensor of numbers whose data lies inside: row-major, little-endian, each entry of a typed
/// field narrowed to its width.
std::vector<std::byte> inline_bytes(const onnx::TensorProto& tensor);

}  // namespace partita::importers
