// SPDX-License-Identifier: Apache-2.0
//
// Pieces of MLIR's textual form.
#pragma once

#include <string>
#include <string_view>

#include "graph/op_graph.h"
#include "graph/tensor.h"

namespace partita::plan {

/// A string literal with its quotes; everything that could end it or a comment is escaped.
std::string mlir_quoted(std::string_view text);

/// "tensor<8x16xf32>". Element types that MLIR lacks are opaque: !onnx.string.
std::string mlir_type(const graph::Tensor& tensor);

/// "onnx.MatMul", quoted; other domains by their own name.
std::string mlir_op_name(const graph::Op& op);

}  // namespace partita::plan
