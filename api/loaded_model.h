// SPDX-License-Identifier: Apache-2.0
//
// A model file, read: ONNX or a workload. What the program and the public API know of a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/machine/machine.h"
#include "graph/op_graph.h"
#include "importers/onnx/onnx_importer.h"

#include <partita/model.h>

namespace partita::api {

struct LoadedModel {
    std::filesystem::path file;
    graph::OpGraph graph;
    std::map<std::string, std::int64_t> bindings;  ///< of symbolic dims, --batch included
    std::map<std::string, graph::Shape> shapes;    ///< --shape and --inputs
    bool unroll = false;
    std::optional<graph::DType> precision;
    std::optional<graph::ProductType> products;
    std::vector<std::string> untie;
    std::vector<std::string> fuse;
    bool fused_attention = false;
    int attention_blocks = 1;
    int products_as_attention = 0;  ///< that `--attention fused` would make one op each
    bool float32_gradients = false;
    std::vector<int> input_sample_dims;  ///< per Input op the dim that carries the batch, or -1
    std::vector<std::string> notes;      ///< how --batch was applied, what was folded or inlined
    std::vector<std::string> details;    ///< more of them: what plans for the framework do not have
    std::unique_ptr<graph::TensorSource> source;  ///< contents of parameters and constants

    // Of a workload:
    std::optional<cost::Machine> machine;            ///< the one it was costed for
    std::vector<std::vector<graph::OpId>> together;  ///< its colour classes
    [[nodiscard]] bool is_workload() const { return machine.has_value(); }
};

/// Throws the importers' InputError and UsageError.
LoadedModel load_model(const std::filesystem::path& file, const ImportOptions& options);

/// The same of an ONNX file in memory, by that name.
LoadedModel load_model(std::span<const std::byte> onnx, const std::string& name,
                       const ImportOptions& options);

/// What the importer read of `file`, which may be a name alone.
LoadedModel to_loaded(importers::OnnxModel imported, const std::filesystem::path& file);

/// Does the name end in .json? Then load_model() reads a workload, else an ONNX model.
bool is_json(const std::filesystem::path& file);

}  // namespace partita::api
