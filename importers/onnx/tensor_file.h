// SPDX-License-Identifier: Apache-2.0
//
// Folders of tensors, one a file: test data sets, as the ONNX conformance tests and examples/runnable have
// them (input_0.pb, input_1.pb, ... and output_0.pb, ..., each a TensorProto), or arrays of numpy's,
// numbered the same way (input_0.npy) or with the tensor's name (tokens.npy).
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/host_tensor.h"

namespace partita::importers {

/// One TensorProto, or of a file that ends in ".npy" one array. Throws InputError naming the file when it
/// cannot be read, holds anything but a tensor of numbers, or has another size than its shape says.
graph::HostTensor read_tensor_file(const std::filesystem::path& file);
/// What such a file holds; errors name `file`.
graph::HostTensor parse_tensor_file(std::istream& stream, const std::filesystem::path& file);

/// The file of tensor `index`: STEM_index.pb, STEM_index.npy or NAME.npy, whichever there is first;
/// nullopt: there is none. `name` may be "".
std::optional<std::filesystem::path> find_tensor_file(const std::filesystem::path& folder,
                                                      std::string_view stem, std::size_t index,
                                                      std::string_view name);

/// Of tensors 0, 1, ...: as many as there are, in order. Those beyond `names` have no name.
std::vector<graph::HostTensor> read_tensor_files(const std::filesystem::path& folder,
                                                 std::string_view stem,
                                                 std::span<const std::string> names = {});

/// Letters, digits, '.', '-' and '_' of a tensor's name, any other replaced by '_', and ".npy".
std::string array_file_name(std::string_view tensor);

/// Writes each tensor into `folder`, which is made where it is not there: array_file_name(), with a number
/// behind where two would be the same; output_N.pb of types that numpy has not. Returns the files. Throws
/// UsageError when one cannot be written.
std::vector<std::filesystem::path> write_tensor_files(const std::filesystem::path& folder,
                                                      std::span<const graph::HostTensor> tensors);

}  // namespace partita::importers
