// SPDX-License-Identifier: Apache-2.0
//
// A test-data-set folder, as the ONNX conformance tests and examples/runnable have them:
// input_0.pb, input_1.pb, ... and output_0.pb, ..., each a TensorProto.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string_view>
#include <vector>

#include "graph/host_tensor.h"

namespace partita::importers {

/// One TensorProto. Throws InputError naming the file when it cannot be read, holds anything but a
/// tensor of numbers, or has another size than its shape says.
graph::HostTensor read_tensor_file(const std::filesystem::path& file);
/// What such a file holds; errors name `file`.
graph::HostTensor parse_tensor_file(std::istream& stream, const std::filesystem::path& file);

/// STEM_0.pb, STEM_1.pb, ...: as many as there are, in order.
std::vector<graph::HostTensor> read_tensor_files(const std::filesystem::path& folder,
                                                 std::string_view stem);

}  // namespace partita::importers
