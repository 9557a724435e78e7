// SPDX-License-Identifier: Apache-2.0
//
// Operators that Partita has no rule for say theirs themselves, in attributes:
//
//     partita_rule             "b m k, k n -> b m n"   dims by name: operands, then results. "..." are
//                              any more dims, "." one that is never split. Names that are in no result
//                              are summed over
//     partita_whole            "k ..."   names that every part of a result needs all of (a softmax's)
//     partita_linear           "0 1", "all"   operands that the results are linear in: partial sums
//                              may pass through
//     partita_saves            "0 y0", "all"   what the backward reads, of operands and results (all
//                              operands)
//     partita_combine          how parts of a sum combine: sum (default), max, min, product, none
//     partita_flops_per_point  times the product of all extents (1; of a matrix product 2)
//
// They are planned, split and priced like others. Only who has kernels for them can run them.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/attributes.h"
#include "graph/tensor.h"

namespace partita::graph {

inline constexpr std::string_view kStatedRule = "partita_rule";

bool states_rule(const Attributes& attributes);

/// Shapes of `results` results by the rule's names; nullopt where a name has no extent, or the rule is
/// wrong, which its reader (operators/op_pattern.cpp) says.
std::optional<std::vector<Shape>> stated_shapes(const Attributes& attributes,
                                                std::span<const Shape> operands,
                                                std::size_t results);

}  // namespace partita::graph
