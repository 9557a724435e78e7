// SPDX-License-Identifier: Apache-2.0
//
// What a schema says about a node, checked before its inference function sees the node: number of
// operands and results, and names, types and values of attributes.
#pragma once

#include <optional>
#include <string>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

namespace partita::importers {

/// What is wrong, e.g. "attribute 'strides': expected 2 integers >= 1, got [0, 2]", or an empty
/// string. `rank` is that of operand 0, when known: lists have one entry per spatial dim.
std::string fault_of(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                     std::optional<int> rank);

/// ONNX's inference of Einsum never ends on a space.
std::string without_spaces(std::string text);

}  // namespace partita::importers
