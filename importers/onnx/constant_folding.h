// SPDX-License-Identifier: Apache-2.0
//
// Evaluates the shape arithmetic that exporters leave behind, with ONNX's (numpy-like) meaning:
//
//     Shape(x) ─▶ Gather 0 ─▶ Unsqueeze ─▶ Concat [., 12, 64] ─▶ Reshape's target
//
// One table, operator -> function; adding a row is the whole registration. A node is folded when
// all its operands are literals (Shape and Size need only the operand's shape) and its results are
// small. "Not folded" is never an error: the node stays, and shape inference judges it.
//
// Source: the ONNX operator specification, opset 1 to 28. Differs: integer overflow, division by
// zero and indices out of range are not folded instead of wrapping.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/attributes.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

struct FoldOperand {
    bool given = false;                   ///< false: an optional operand that is left out
    const Literal* literal = nullptr;     ///< null: left out, or its contents are not known
    const graph::Shape* shape = nullptr;  ///< null: not known; -1: an extent that is not known
};

struct FoldNode {
    std::string_view type;
    int opset = 0;
    const graph::Attributes& attributes;
    std::span<const std::pair<std::string, Literal>> tensors;  ///< tensor-valued attributes
    std::span<const FoldOperand> operands;
    std::size_t results = 1;
    std::int64_t limit = 4096;     ///< elements of an integer or boolean result
    std::int64_t real_limit = 64;  ///< of a floating-point one
    /// Visits of one dim of one element that are left for this and all later nodes, counted before
    /// they are made; a node that needs more is not folded. Null: no limit.
    std::int64_t* work_left = nullptr;
};

using Literals = std::vector<Literal>;

/// The results, one per result of the node, or nullopt.
std::optional<Literals> fold(const FoldNode& node);

/// Whether the table has a row for a standard operator.
bool can_fold(std::string_view type);

}  // namespace partita::importers
