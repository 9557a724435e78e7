// SPDX-License-Identifier: Apache-2.0
//
// ONNX file -> OpGraph with concrete shapes. Opset 1 to 28, weights inside, external or absent:
// importing never opens an external file. Steps, each a file pair of this folder:
//
//     parse ─▶ bind symbolic dims ─▶ read nodes (fold, infer, inline, bodies) ─▶ drop dead nodes
//           input_shapes             model_reader                               graph_builder
//
// In the result, nodes that compute shapes are gone: what they computed is a constant with
// known_integers where an op still needs it. Inputs come first, in the file's order; weights and
// constants stand before their first user and share its block. An op keeps its node's name, made
// unique; one without a name is called after its type and its place in the file, e.g. Conv_12.
//
// Roles: floating-point initializers are parameters. Constant are: everything else, 0-d tensors,
// one-element tensors outside of weighted operators, running mean and variance of
// BatchNormalization, scales of Resize and of quantization. Unless the model's metadata say that
// its roles are exact (kExactRoles), as models made by the C++ API do: then every floating-point
// initializer is a parameter, and only dims of denotation DATA_BATCH carry the batch.
//
// If, Loop and Scan are one op with bodies. Inputs of each body: the formal ones, then one for each
// value that any body of the op takes from outside; these are the op's last operands, in the same
// order. A sequence, optional or map has no shape: it becomes a tensor of shape {} and dtype
// undefined.
//
// Limits: tensors of at most 64 dims; memory and work in proportion to the file, with a floor that
// no model we know comes near (reading_limits.h). What needs more is refused.
//
// Errors: InputError for what is wrong with the file, UsageError for what is wrong with the
// options.
// Threads: reentrant; the TensorSource may be read from any number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "graph/tensor.h"

namespace partita::importers {

/// A key of a model's metadata_props.
inline constexpr std::string_view kExactRoles = "partita.exact_roles";

struct OnnxOptions {
    std::map<std::string, std::int64_t> bindings;      ///< --bind NAME=N
    std::map<std::string, graph::Shape> input_shapes;  ///< --shape INPUT:AxBxC
    std::optional<std::int64_t> batch;                 ///< --batch N
    std::filesystem::path inputs;                      ///< --inputs (tensor_files.h); empty: none
    bool unroll = false;                               ///< --unroll
    std::optional<graph::DType> precision;             ///< --precision: float32, float16, bfloat16
    std::vector<std::string> untie;  ///< --untie: globs of parameters that layers share
    bool float32_gradients = false;  ///< of parameters; --precision ...,grads=fp32
    /// Elements of the largest integer result that is evaluated: indices of a mask of 64 x 1024.
    std::int64_t fold_limit = std::int64_t{1} << 16;
};

struct OnnxModel {
    graph::OpGraph graph;
    /// Value of every symbolic dim of an input, for plan.json.
    std::map<std::string, std::int64_t> bindings;
    /// Per Input op, in order of id, the dim that carries the batch, or -1.
    std::vector<int> input_sample_dims;
    /// Sentences for the summary: how --batch was understood, upper bounds, unknown operators, ...
    std::vector<std::string> notes;
    std::map<std::string, std::string> metadata;  ///< the model's metadata_props
    std::int64_t file_nodes = 0;                  ///< nodes of the main graph as stored
    std::int64_t folded_nodes = 0;                ///< evaluated while importing
    std::int64_t dead_nodes = 0;                  ///< no output depends on them
    std::int64_t bounded_tensors = 0;             ///< tensors with an extent that depends on data
    /// Contents of parameters and constants under their tensor's name. Owns what it needs.
    std::unique_ptr<graph::TensorSource> source;
};

/// Reads a model of at most 2 GB, which is protobuf's limit; external data does not count.
OnnxModel import_onnx(const std::filesystem::path& path, const OnnxOptions& options = {});

/// The same from memory. `name` stands for the file in messages; external data, if ever read, is
/// looked up below `folder`.
OnnxModel import_onnx(std::span<const std::byte> bytes, const OnnxOptions& options = {},
                      const std::string& name = "model.onnx",
                      const std::filesystem::path& folder = {});

}  // namespace partita::importers
