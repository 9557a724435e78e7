// SPDX-License-Identifier: Apache-2.0
//
// Types of one node's results by the inference function of its ONNX schema, from concrete operand
// shapes and the contents of small constants. Node by node, so that each target is concrete before
// the next node needs it; ONNX's own graph-level inference leaves 446 values of BERT open.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include "importers/onnx/literal.h"

namespace partita::importers {

struct InferenceOperand {
    bool given = false;
    const onnx::TypeProto* type = nullptr;    ///< null: not known
    const onnx::TensorProto* data = nullptr;  ///< contents as the file has them, inline and small
    const Literal* literal = nullptr;         ///< or as computed
};

/// Types of a body's results, given those of its inputs; implemented by who can read graphs.
class BodyTyper {
public:
    virtual ~BodyTyper() = default;
    virtual std::vector<onnx::TypeProto> body_types(
        const std::string& attribute, std::span<const onnx::TypeProto* const> inputs) = 0;
};

/// One type per result, empty where nothing is known. `node` has passed the schema's Verify().
/// Adds to `elements_read` those of the operands whose contents decided.
/// Throws what ONNX throws (std::exception) when operands and attributes contradict each other.
std::vector<onnx::TypeProto> infer_types(const onnx::NodeProto& node, const onnx::OpSchema& schema,
                                         std::span<const InferenceOperand> operands,
                                         BodyTyper& bodies, std::size_t& elements_read);

}  // namespace partita::importers
