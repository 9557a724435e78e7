// SPDX-License-Identifier: Apache-2.0
//
// ONNX demands that a graph's nodes are sorted; files from elsewhere sometimes are not.
#pragma once

#include <vector>

#include <onnx/onnx_pb.h>

namespace partita::importers {

/// Bodies and functions that nest deeper than this are refused when they are read.
inline constexpr int kMaxDepth = 64;

/// Numbers of the nodes so that makers come before readers, what bodies take from outside included:
/// the file's order, as far as it can be kept. Nodes that wait for a cycle are missing.
std::vector<int> reading_order(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);

}  // namespace partita::importers
