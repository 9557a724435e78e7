// SPDX-License-Identifier: Apache-2.0
//
// What a schema says about a node, checked before its inference function sees the node: number of
// operands and results, and names, types and values of attributes. Every attribute that is an axis,
// a count or a step is bounded here, before it is cast, multiplied or used as an index: ONNX's own
// inference does so without looking (the axis of LayerNormalization, the batch dims of GatherND).
#pragma once

#include <optional>
#include <span>
#include <string>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

namespace partita::importers {

/// What is wrong, e.g. "attribute 'strides': expected 2 integers >= 1, got [0, 2]", or an empty
/// string. `ranks` are those of the operands, where known: an axis counts the dims of one, and
/// lists of windowed operators have one entry per spatial dim.
std::string fault_of(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                     std::span<const std::optional<int>> ranks);

/// ONNX's inference of Einsum never ends on a space.
std::string without_spaces(std::string text);

}  // namespace partita::importers
