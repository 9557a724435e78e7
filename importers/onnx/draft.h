// SPDX-License-Identifier: Apache-2.0
//
// A draft: one ONNX graph after reading, before it becomes an OpGraph. Values of all scopes live in
// one table and are named by number, so that inlined functions and branches share values with their
// caller without any renaming:
//
//     function f(x) -> y { y = Relu(x) }      caller: b = f(a)      draft: Relu, operand a, result b
//
// Nodes whose results were evaluated while reading are not in the draft.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "graph/attributes.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

using ValueId = std::uint32_t;
inline constexpr ValueId kNoValue = std::numeric_limits<ValueId>::max();

struct Value {
    std::string name;
    std::uint32_t draft = 0;  ///< number of the draft that defines it
    onnx::TypeProto type;
    std::uint64_t bounded_dims = 0;  ///< bit i: extent i is an upper bound, it depends on data
    std::shared_ptr<const Literal> literal;  ///< contents, when known for certain
    /// Contents that were computed with upper bounds: they decide shapes, but the op stays.
    std::shared_ptr<const Literal> estimate;
    const onnx::TensorProto* data = nullptr;  ///< initializer, or tensor of a Constant node
    const onnx::SparseTensorProto* sparse = nullptr;
    bool initializer = false;
    bool unknown_contents = false;  ///< `data` was looked at, and is no literal
};

struct Draft;

struct DraftBody {
    std::string attribute;
    std::unique_ptr<Draft> draft;
};

struct DraftNode {
    std::string name;
    std::string type;
    std::string domain;
    int opset = 0;
    std::string block;
    std::vector<ValueId> operands;  ///< kNoValue: left out
    std::vector<ValueId> results;
    graph::Attributes attributes;
    std::vector<DraftBody> bodies;
    std::optional<std::int64_t> trip_count;
    bool known_operator = true;  ///< false: no schema of ONNX describes it
};

struct Draft {
    std::uint32_t number = 0;
    std::vector<DraftNode> nodes;
    std::vector<ValueId> inputs;
    std::vector<ValueId> outputs;
    std::vector<std::string> output_names;
};

}  // namespace partita::importers
