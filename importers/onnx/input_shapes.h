// SPDX-License-Identifier: Apache-2.0
//
// Concrete shapes of a model's inputs from --bind, --shape, --inputs and --batch. What one option
// says of a name holds for every input; options that contradict each other are refused.
//
//     input 'ids' [batch sequence], input 'mask' [batch sequence]
//     --shape ids:8x128   binds batch = 8, sequence = 128, and with them mask
//
// --batch binds the dims that the model itself calls batch (denotation DATA_BATCH, or a name like
// "batch", "batch_size", "N"); when it calls none so, the first symbolic dim of each input.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <onnx/onnx_pb.h>

#include "graph/tensor.h"
#include "importers/onnx/literal.h"
#include "importers/onnx/onnx_importer.h"

namespace partita::importers {

struct BoundInputs {
    std::map<std::string, graph::Shape> shapes;  ///< of tensor inputs that are no initializers
    std::map<std::string, std::int64_t> bindings;
    std::map<std::string, Literal> contents;  ///< small inputs of the data set
    std::vector<int> sample_dims;             ///< per input that is no initializer
    std::vector<std::string> notes;
};

/// Of a model whose roles are exact (onnx_importer.h) only the denotation says what is batch.
/// Throws UsageError naming all dims that are still without a value at once.
BoundInputs bind_inputs(const onnx::ModelProto& model, const OnnxOptions& options,
                        const std::string& file);

/// Do the model's metadata say so?
bool has_exact_roles(const onnx::ModelProto& model);

}  // namespace partita::importers
