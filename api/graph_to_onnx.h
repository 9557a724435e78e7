// SPDX-License-Identifier: Apache-2.0
//
// Graph -> ONNX model whose weights are elsewhere:
//
//     parameters             initializers whose data lies in another file, which may not exist
//     constants              Constant nodes, the same way unless their values are known
//     the dim of the batch   denotation DATA_BATCH
//
// The metadata key kExactRoles (onnx_importer.h) makes the importer take roles and batch dims as
// they are said, instead of guessing.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "api/graph_impl.h"

namespace partita::api {

/// Where the contents of a tensor lie, in bytes of a file beside the model.
struct StoredValue {
    std::string location;
    std::int64_t offset = 0;
    std::int64_t length = 0;
};
using StoredValues = std::map<std::string, StoredValue>;  ///< by the tensor's name

/// The bytes of an .onnx file. What `values` has not lies in a file that does not exist. Throws
/// InputError naming graph and op for what only the whole graph shows and the importer would not say
/// as well: no output, an operator that ONNX does not define and whose results have no given shape.
std::string to_onnx(const Graph::Impl& graph, const StoredValues& values = {});

}  // namespace partita::api
