// SPDX-License-Identifier: Apache-2.0
//
// One tensor in a file: a TensorProto, or an array of numpy's. Where such files are found:
// tensor_files.h.
#pragma once

#include <filesystem>
#include <iosfwd>
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

/// Letters, digits, '.', '-' and '_' of a tensor's name, any other replaced by '_', and ".npy".
std::string array_file_name(std::string_view tensor);

/// Writes each tensor into `folder`, which is made where it is not there: array_file_name(), with a number
/// behind where two would be the same; output_N.pb of types that numpy has not. Returns the files. Throws
/// UsageError when one cannot be written.
std::vector<std::filesystem::path> write_tensor_files(const std::filesystem::path& folder,
                                                      std::span<const graph::HostTensor> tensors);

}  // namespace partita::importers
