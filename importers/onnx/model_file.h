// SPDX-License-Identifier: Apache-2.0
//
// An ONNX file as the message that is in it, of at most 2 GB.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include <onnx/onnx_pb.h>

namespace partita::importers {

/// `file` is its name in messages. Throws InputError.
std::shared_ptr<onnx::ModelProto> parse_file(const std::filesystem::path& path,
                                             const std::string& file);
std::shared_ptr<onnx::ModelProto> parse_bytes(std::span<const std::byte> bytes,
                                              const std::string& file);

[[noreturn]] void throw_not_onnx(const std::string& file);

}  // namespace partita::importers
