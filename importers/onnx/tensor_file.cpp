// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/tensor_file.h"

#include <fstream>
#include <istream>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "base/error.h"
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
    onnx::TensorProto proto;
    if (!proto.ParseFromIstream(&stream)) fail("expected an ONNX tensor, got something else");
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

std::vector<graph::HostTensor> read_tensor_files(const std::filesystem::path& folder,
                                                 std::string_view stem) {
    std::vector<graph::HostTensor> tensors;
    for (;;) {
        const auto file = folder / fmt::format("{}_{}.pb", stem, tensors.size());
        if (!std::filesystem::exists(file)) return tensors;
        tensors.push_back(read_tensor_file(file));
    }
}

}  // namespace partita::importers
