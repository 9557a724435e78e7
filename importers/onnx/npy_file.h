// SPDX-License-Identifier: Apache-2.0
//
// One array in a file of numpy's (.npy).
//
// Source: numpy.lib.format, versions 1.0 to 3.0 of the format.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "graph/host_tensor.h"

namespace partita::importers {

/// What a file of these bytes holds, row-major and little-endian. Throws InputError naming `file` for
/// anything else: arrays of objects, strings or records, in Fortran's order, of other bytes than the
/// shape says.
onnx::TensorProto parse_npy(std::string_view bytes, const std::filesystem::path& file);

/// A TensorProto, or of a `file` that ends in ".npy" its array; nullopt: it is no such message.
std::optional<onnx::TensorProto> read_tensor_message(std::istream& stream,
                                                     const std::filesystem::path& file);

/// The bytes of a file that numpy reads; bfloat16 becomes float32, which numpy has. nullopt: of types that
/// it has not (float8, 4 bits).
std::optional<std::string> to_npy(const graph::HostTensor& tensor);

}  // namespace partita::importers
