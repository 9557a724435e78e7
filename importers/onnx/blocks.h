// SPDX-License-Identifier: Apache-2.0
//
// The block (layer) that a node belongs to, from the path in its name or its `namespace` metadata:
//
//     /model/bert/encoder/layer.0/attention/self/MatMul      model/bert/encoder/layer.0
//     /layer1/layer1.2/conv2/Conv                            layer1/layer1.2
//     /encoder/layers/encoder_layer_3/mlp/mlp.0/MatMul       encoder/layers/encoder_layer_3
//     ": M/model: T/model.h.3: B/model.h.3.attn: A/view_3: aten.view"      model.h.3
//     /cls/predictions/transform/Gelu                        cls/predictions
//
// Rule: the path up to its first component that ends in a number, so that there is one block per
// repeated layer; without one, the first two components. The operator's own name at the end is no
// component. Blocks are for grouping, reports and moves; nothing else depends on them.
#pragma once

#include <string>
#include <string_view>

namespace partita::importers {

/// "" when neither text has a path. Metadata wins: dynamo's node names have no path.
std::string block_of(std::string_view node_name, std::string_view namespace_metadata);

}  // namespace partita::importers
