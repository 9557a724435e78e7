// SPDX-License-Identifier: Apache-2.0
//
// Graph -> ONNX model without weights:
//
//     parameters             initializers whose data lies in a file that does not exist
//     constants              Constant nodes, the same way unless their values are known
//     the dim of the batch   denotation DATA_BATCH
//
// The metadata key kExactRoles (onnx_importer.h) makes the importer take roles and batch dims as
// they are said, instead of guessing.
#pragma once

#include <string>

#include "api/graph_impl.h"

namespace partita::api {

/// The bytes of an .onnx file. Throws InputError naming graph and op for what only the whole graph
/// shows and the importer would not say as well: no output, an operator that ONNX does not define
/// and whose results have no given shape.
std::string to_onnx(const Graph::Impl& graph);

}  // namespace partita::api
