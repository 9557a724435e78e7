// SPDX-License-Identifier: Apache-2.0
//
// Exporters that trace a mask element by element leave a Gather behind which takes every element,
// in order:
//
//     mask [b s] ─▶ Flatten ─▶ Gather(0 1 2 ... b*s-1) ─▶ [b 1 1 s]        a Reshape in disguise
//
// Read as such it keeps the samples of a batch apart, where a Gather may mix them.
#pragma once

#include <string_view>

#include "graph/attributes.h"
#include "graph/tensor.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

/// Does this Gather or GatherND of data of that shape give all its elements in row-major order?
/// Negative indices are not looked at.
bool is_identity_gather(std::string_view type, const graph::Attributes& attributes,
                        const graph::Shape& data, const Literal& indices);

}  // namespace partita::importers
