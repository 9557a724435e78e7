// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/model_file.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <system_error>

#include <fmt/format.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>

#include "base/error.h"

namespace partita::importers {

[[noreturn]] void throw_not_onnx(const std::string& file) {
    throw InputError(
        fmt::format("{}: expected an ONNX model, got bytes that are none. Export the "
                    "model again, or check that the file is complete.",
                    file));
}

std::shared_ptr<onnx::ModelProto> parse_file(const std::filesystem::path& path,
                                             const std::string& file) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error) {
        throw InputError(fmt::format("{}: cannot be read ({}). Give the path of an ONNX model.",
                                     path.string(), error.message()));
    }
    if (size > static_cast<std::uintmax_t>(std::numeric_limits<int>::max())) {
        throw InputError(
            fmt::format("{}: has {} bytes, and a model file can have at most 2 GB. "
                        "Export the weights as external data.",
                        file, size));
    }
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        throw InputError(fmt::format("{}: cannot be read ({}). Give the path of an ONNX model.",
                                     path.string(), std::strerror(errno)));
    }
    auto model = std::make_shared<onnx::ModelProto>();
    google::protobuf::io::FileInputStream stream(descriptor);
    stream.SetCloseOnDelete(true);
    const google::protobuf::LogSilencer quiet;  // libraries here never print
    if (size == 0 || !model->ParseFromZeroCopyStream(&stream)) throw_not_onnx(file);
    return model;
}

std::shared_ptr<onnx::ModelProto> parse_bytes(std::span<const std::byte> bytes,
                                              const std::string& file) {
    auto model = std::make_shared<onnx::ModelProto>();
    const google::protobuf::LogSilencer quiet;  // libraries here never print
    const bool fits = bytes.size() <= static_cast<std::size_t>(std::numeric_limits<int>::max());
    if (bytes.empty() || !fits ||
        !model->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        throw_not_onnx(file);
    }
    return model;
}

}  // namespace partita::importers
