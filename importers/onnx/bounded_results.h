// SPDX-License-Identifier: Apache-2.0
//
// Upper bounds of extents that depend on data, one table: operator -> function. For example
// NonZero of x has shape [rank of x, number of non-zero elements], the latter at most all of them.
//
// An operator without a row (Reshape to a target that is an input of the model) has no bound; what
// needs its shape is refused unless the model declares it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/tensor.h"
#include "importers/onnx/literal.h"

namespace partita::importers {

struct BoundOperand {
    const graph::Shape* shape = nullptr;  ///< null: left out, or not known in full
    const Literal* literal = nullptr;     ///< null: left out, or not known
};

struct BoundNode {
    std::string_view type;
    int opset = 0;
    const graph::Attributes& attributes;
    std::span<const BoundOperand> operands;
    std::size_t results = 1;
};

/// Per result an upper bound of its shape, where there is one. Extents that inference knows are
/// exact in spite of what is said here.
std::vector<std::optional<graph::Shape>> upper_bounds(const BoundNode& node);

}  // namespace partita::importers
