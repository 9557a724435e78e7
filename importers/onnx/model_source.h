// SPDX-License-Identifier: Apache-2.0
//
// Contents of an imported model's parameters and constants: inside the file, computed while
// importing, or in external files next to it. External data is opened at the first read, never
// before, and only inside the model's folder: absolute locations, `..` and links that lead out of
// it are refused.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <onnx/onnx_pb.h>

#include "graph/tensor.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

/// Where one tensor's bytes are. Pointers lead into messages that the source keeps alive.
using Contents = std::variant<const onnx::TensorProto*, const onnx::SparseTensorProto*,
                              std::shared_ptr<const Literal>>;

class ModelSource final : public graph::TensorSource {
public:
    using Messages = std::vector<std::shared_ptr<google::protobuf::Message>>;

    ModelSource(std::string file, std::filesystem::path folder, Messages messages,
                std::map<std::string, Contents> contents);

    void read(const std::string& name, Bytes offset, std::span<std::byte> out) const override;

private:
    [[noreturn]] void fail(const std::string& name, const std::string& what) const;
    void read_external(const std::string& name, const onnx::TensorProto& tensor,
                       std::int64_t offset, std::span<std::byte> out) const;
    void copy(const std::string& name, std::span<const std::byte> bytes, std::int64_t offset,
              std::span<std::byte> out) const;

    std::string file_;
    std::filesystem::path folder_;
    Messages messages_;
    std::map<std::string, Contents> contents_;
};

}  // namespace partita::importers
