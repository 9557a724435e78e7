// SPDX-License-Identifier: Apache-2.0
//
// The op table: one row per operator. Letters are factors: operands in ONNX order, then the result.
// `.` is a dim never split, `..` any number of those, `...` all other dims (factors d0, d1, ...,
// aligned from the right, as broadcasting is). A letter missing from every result is a reduction. A
// dim of extent 1 under a letter of a larger extent broadcasts. An op with more operands (results)
// than its row repeats the last one: "... -> ..." also describes Sum of five tensors.
//
//     "... m k, ... k n -> ... m n"     MatMul        "n c ... -> n c .."   GlobalAveragePool
//     "..., ... -> ..."                 Add           "... -> ..."          Relu
//
// Adding a row is the whole registration: rules, `inspect`, the docs and the conformance tests read
// this table. Rows that need arithmetic on attributes and shapes name a function of op_rules.h.
#pragma once

#include <span>
#include <string_view>

#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"

namespace partita::graph {

class PartBuilder;

struct OpRow {
    std::string_view type;
    std::string_view factors = {};   ///< e.g. "... m k, ... k n -> ... m n"; empty: `make` does it
    std::string_view linear = {};    ///< operands it is linear in: "0 1" or "all"
    bool additive = false;           ///< see OpRule::additive
    std::string_view whole = {};     ///< letters that results read as a whole, "..." for all others
    std::string_view saves = "0";    ///< kept for backward: "0 1", "y0" = result 0, or "all"
    int flops_per_point = 1;         ///< times the product of all factor extents
    Combine combine = Combine::sum;  ///< of its reductions
    bool matrix_product = false;
    bool alias = false;
    bool random = false;  ///< draws numbers
    /// Makes the rule of an op whose letters need arithmetic on attributes and shapes.
    OpRule (*make)(const OpGraph& graph, const Op& op, const OpRow& row) = nullptr;
    std::string_view domain = {};
    /// Localises attributes and targets of a part; absent: a part runs the operator as it is.
    void (*part)(PartBuilder& b) = nullptr;
};

/// All rows, sorted by (domain, type).
std::span<const OpRow> op_table();

/// Of the domain "partita": MatMul and the bias [n] that is added to it, as one kernel.
inline constexpr std::string_view kLinear = "Linear";
/// MatMul, Gemm, Linear: two matrices, or stacks of them.
bool is_product(const Op& op);

/// The row for an operator, or null: the caller falls back to the conservative rule.
const OpRow* find_row(std::string_view domain, std::string_view type);

}  // namespace partita::graph
