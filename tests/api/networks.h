// SPDX-License-Identifier: Apache-2.0
//
// Networks of the examples, built by hand as a framework would, with the names that PyTorch's
// exporter gave them.
#pragma once

#include <cstdint>

#include <partita/graph.h>

namespace partita::tests {

/// examples/runnable/mlp/model.onnx.
Graph mlp(std::int64_t batch);
/// Layers "layers/0", ... of two products with residuals, [batch 64].
Graph layers(std::int64_t batch, int count);

/// examples/runnable/convnet/model.onnx: BatchNormalization, a residual, a grouped dilated branch.
Graph convnet(std::int64_t batch);

}  // namespace partita::tests
