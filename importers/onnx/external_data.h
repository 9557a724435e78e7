// SPDX-License-Identifier: Apache-2.0
//
// Tensors whose contents are in other files, which a model names relative to its folder. Only what lies
// in that folder is found: absolute locations, `..` and links that lead out of it are faults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include <onnx/onnx_pb.h>

namespace partita::importers {

struct External {
    std::string location;
    std::int64_t offset = 0;
    std::int64_t length = -1;  ///< -1: not given
};

External external_of(const onnx::TensorProto& tensor);

/// Of the main graph's initializers, each once.
std::set<std::string> external_locations(const onnx::ModelProto& model);

struct ExternalFile {
    std::filesystem::path path;
    std::string fault;     ///< for people, after the tensor's name; "": none
    bool missing = false;  ///< the fault is that it is not there
};

/// `folder`: the model's; empty: the current one.
ExternalFile find_external(const std::filesystem::path& folder, const std::string& location);

}  // namespace partita::importers
