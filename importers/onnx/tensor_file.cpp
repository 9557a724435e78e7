// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/tensor_file.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <istream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "base/error.h"
#include "base/files.h"
#include "importers/onnx/npy_file.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/tensor_bytes.h"

namespace partita::importers {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, std::string_view what) {
    throw InputError(fmt::format("{}: {}. Write the data set again.", file.string(), what));
}

}  // namespace

graph::HostTensor read_tensor_file(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) refuse(file, "cannot be read");
    return parse_tensor_file(stream, file);
}

graph::HostTensor parse_tensor_file(std::istream& stream, const std::filesystem::path& file) {
    const auto fail = [&](std::string_view what) { refuse(file, what); };
    const std::optional<onnx::TensorProto> message = read_tensor_message(stream, file);
    if (!message) fail("expected an ONNX tensor, got something else");
    const onnx::TensorProto& proto = *message;
    const std::string fault = fault_of(proto);
    if (!fault.empty()) fail(fault);
    graph::HostTensor tensor{.name = proto.name(),
                             .dtype = dtype_from_onnx(proto.data_type()),
                             .shape = dims_of(proto),
                             .bytes = {}};
    if (is_external(proto)) fail("expected the data inside the file, it is external");
    if (tensor.dtype == graph::DType::string) fail("expected numbers, got strings");
    tensor.bytes = inline_bytes(proto);
    return tensor;
}

std::string array_file_name(std::string_view tensor) {
    std::string name(tensor);
    std::ranges::replace_if(
        name,
        [](char c) {
            const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
            return !is_letter && !(c >= '0' && c <= '9') && c != '.' && c != '-' && c != '_';
        },
        '_');
    return name + ".npy";
}

std::vector<std::filesystem::path> write_tensor_files(const std::filesystem::path& folder,
                                                      std::span<const graph::HostTensor> tensors) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
        throw UsageError(fmt::format("{}: cannot be made: {}. Name another folder.",
                                     folder.string(), error.message()));
    }
    std::set<std::string> taken;
    std::vector<std::filesystem::path> files;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const graph::HostTensor& tensor = tensors[i];
        std::string name = array_file_name(tensor.name);
        for (std::size_t n = i; !taken.insert(name).second; ++n) {
            name = array_file_name(fmt::format("{}_{}", tensor.name, n));
        }
        std::optional<std::string> bytes = to_npy(tensor);
        if (!bytes) {
            name = fmt::format("output_{}.pb", i);
            onnx::TensorProto proto;
            proto.set_name(tensor.name);
            proto.set_data_type(static_cast<std::int32_t>(tensor.dtype));
            for (const std::int64_t extent : tensor.shape) proto.add_dims(extent);
            proto.set_raw_data(tensor.bytes.data(), tensor.bytes.size());
            bytes = proto.SerializeAsString();
        }
        files.push_back(folder / name);
        write_file(files.back(), *bytes);
    }
    return files;
}

}  // namespace partita::importers
