// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/model_source.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "base/error.h"
#include "importers/onnx/external_data.h"
#include "importers/onnx/model_error.h"
#include "importers/onnx/onnx_types.h"
#include "importers/onnx/tensor_bytes.h"

namespace partita::importers {

using graph::DType;
using graph::Shape;

namespace {

/// Fills `out`, which starts at byte `offset` of the dense tensor.
bool read_sparse(const onnx::SparseTensorProto& sparse, std::int64_t offset,
                 std::span<std::byte> out) {
    const auto indices = literal_of(sparse.indices(), std::numeric_limits<std::int32_t>::max());
    const std::vector<std::byte> values = inline_bytes(sparse.values());
    const int bits = graph::bits_of(dtype_from_onnx(sparse.values().data_type()));
    const Shape shape(sparse.dims().begin(), sparse.dims().end());
    const bool linear = sparse.indices().dims_size() == 1;
    const std::size_t rank = linear ? 1 : shape.size();
    const auto count =
        static_cast<std::size_t>(bits < 8 ? 0 : values.size() * 8 / static_cast<std::size_t>(bits));
    if (!indices || !indices->integral() || bits < 8 || indices->size() != count * rank)
        return false;
    std::fill(out.begin(), out.end(), std::byte{0});
    const std::int64_t width = bits / 8;
    for (std::size_t i = 0; i < count; ++i) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < rank; ++d) {
            const std::int64_t index = indices->integer(i * rank + d);
            const std::int64_t extent = linear ? std::int64_t{1} << 55 : shape[d];
            if (index < 0 || index >= extent) return false;
            at = linear ? index : at * shape[d] + index;
        }
        for (std::int64_t b = 0; b < width; ++b) {
            const std::int64_t to = at * width + b - offset;
            if (to < 0 || to >= static_cast<std::int64_t>(out.size())) continue;
            out[static_cast<std::size_t>(to)] =
                values[i * static_cast<std::size_t>(width) + static_cast<std::size_t>(b)];
        }
    }
    return true;
}

}  // namespace

ModelSource::ModelSource(std::string file, std::filesystem::path folder, Messages messages,
                         std::map<std::string, Contents> contents)
    : file_(std::move(file)),
      folder_(std::move(folder)),
      messages_(std::move(messages)),
      contents_(std::move(contents)) {}

void ModelSource::fail(const std::string& name, const std::string& what) const {
    throw InputError(fmt::format("{}: tensor '{}': {}.", file_, name, what));
}

void ModelSource::copy(const std::string& name, std::span<const std::byte> bytes,
                       std::int64_t offset, std::span<std::byte> out) const {
    const auto size = static_cast<std::int64_t>(bytes.size());
    if (offset < 0 || offset > size || static_cast<std::int64_t>(out.size()) > size - offset) {
        fail(name, fmt::format("has {} bytes; {} from byte {} on were asked for", size, out.size(),
                               offset));
    }
    if (!out.empty()) std::memcpy(out.data(), bytes.data() + offset, out.size());
}

void ModelSource::read(const std::string& name, Bytes offset, std::span<std::byte> out) const {
    const auto found = contents_.find(name);
    if (found == contents_.end()) {
        fail(name, "the model holds no contents under this name");
    }
    if (const auto* literal = std::get_if<std::shared_ptr<const Literal>>(&found->second)) {
        copy(name, to_bytes(**literal), offset.raw(), out);
        return;
    }
    if (const auto* sparse = std::get_if<const onnx::SparseTensorProto*>(&found->second)) {
        if (!read_sparse(**sparse, offset.raw(), out)) {
            fail(name, "its sparse indices do not match its values and shape");
        }
        return;
    }
    const onnx::TensorProto& tensor = *std::get<const onnx::TensorProto*>(found->second);
    if (dtype_from_onnx(tensor.data_type()) == DType::string) {
        fail(name, "strings have no fixed size; only numbers can be read");
    }
    if (is_external(tensor)) {
        read_external(name, tensor, offset.raw(), out);
    } else if (tensor.has_raw_data()) {
        copy(name, std::as_bytes(std::span(tensor.raw_data())), offset.raw(), out);
    } else {
        copy(name, inline_bytes(tensor), offset.raw(), out);
    }
}

void ModelSource::read_external(const std::string& name, const onnx::TensorProto& tensor,
                                std::int64_t offset, std::span<std::byte> out) const {
    const External external = external_of(tensor);
    const auto count = element_count(dims_of(tensor), std::int64_t{1} << 55).value_or(0);
    const std::int64_t size =
        bytes_for(count, graph::bits_of(dtype_from_onnx(tensor.data_type()))).raw();
    if (external.offset < 0 || (external.length != -1 && external.length != size)) {
        fail(name,
             fmt::format("expected external data of {} bytes at an offset >= 0, got offset {}, "
                         "length {}",
                         size, external.offset, external.length));
    }
    if (offset < 0 || offset > size || static_cast<std::int64_t>(out.size()) > size - offset) {
        fail(name, fmt::format("has {} bytes; {} from byte {} on were asked for", size, out.size(),
                               offset));
    }
    const ExternalFile found = find_external(folder_, external.location);
    if (!found.fault.empty()) fail(name, found.fault);
    const std::filesystem::path& file = found.path;
    std::error_code error;
    const auto file_size = static_cast<std::int64_t>(std::filesystem::file_size(file, error));
    if (error || external.offset > file_size || size > file_size - external.offset) {
        fail(name,
             fmt::format("expected {} bytes at offset {} of '{}', which has {} bytes. Get the "
                         "weights file that belongs to the model",
                         size, external.offset, external.location, error ? 0 : file_size));
    }
    std::ifstream stream(file, std::ios::binary);
    stream.seekg(external.offset + offset);
    stream.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(out.size()));
    if (!stream) fail(name, fmt::format("'{}' cannot be read", external.location));
}

}  // namespace partita::importers
