// SPDX-License-Identifier: Apache-2.0
//
// The operator that computes a part of an op: what to run on the part's regions of the operands so
// that it writes the part's regions of the results.
//
//     Conv, h split in 2, pads 1 1 1 1        part 0   pads 1 1 0 1   x[h 0-5)      y[h 0-4)
//                                             part 1   pads 0 1 1 1   x[h 3-8)      y[h 4-8)
//     Reshape (2 5) 64 -> [10 64]             part 0   target [5 64], from the rule, not from [10 64]
//     Gather of 100 rows, rows split in 2     part 1   index i reads row i - 50; the result is zero
//                                                      where i lies outside of 50-100 (RULES.md 5)
//     ReduceMean over 5, split in 2           part 0   a mean of 3, times 3/5; the parts add up, and
//                                                      so divide by 5, never by 3 or 2 (RULES.md 9)
//     Gemm, k split in 2, with a bias         part 1   has no bias (RULES.md 8)
//
// A region with holes is packed: an operand or result of a part has the extents of its region and
// no others. Who runs a part packs, runs, crops, weighs, masks and unpacks, in this order.
//
// Recurrent ops whose units are split (possible with one step only) are no operator of ONNX: R has
// fewer rows per gate than columns, and the initial hidden state all of them.
//
// Pure; any number of threads. Errors: none; the rule has refused what no part can compute.
// Source: RULES.md 5, 8, 9; the operators' definitions in ONNX.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/attributes.h"
#include "graph/dtype.h"
#include "graph/op_graph.h"
#include "graph/operators/op_rule.h"
#include "graph/operators/part.h"

namespace partita::graph {

struct PartOperand {
    enum class Source : std::uint8_t {
        left_out,  ///< the op has none, or another part applies it
        region,    ///< of the op's operand of the same number
        integers,  ///< a value of the part's own: shape targets, starts, pads
    };
    Source source = Source::left_out;
    Region region;                       ///< Source::region
    DType dtype = DType::int64;          ///< of its elements, unless it is left out
    Shape shape;                         ///< of the whole operand, or of the integers
    std::vector<std::int64_t> integers;  ///< Source::integers, row-major
};

struct PartResult {
    bool is_wanted = true;  ///< false: the op leaves this result out
    DType dtype = DType::undefined;
    Region region;  ///< of the op's result, that the part writes
    /// Per dim the positions of what the operator returns that are the region; empty: all of it.
    std::vector<Range> crop;
    /// Multiplies what the operator returns: the share of a mean that the part has.
    double weight = 1.0;
    /// How parts that write the same region combine; none: it is written whole.
    Combine combine = Combine::none;
};

/// The part holds only some rows of what `operand` indexes. An index i < 0 means i + extent, which
/// comes first; then it selects row i - rows.begin of the part, or, outside of rows, any row: the
/// result is zero there. Dim j of the indices is dim result_dim + j of result 0.
struct RowMask {
    int operand = 1;
    std::int64_t extent = 0;
    Range rows;
    int result_dim = 0;
    friend bool operator==(const RowMask&, const RowMask&) = default;
};

struct PartOp {
    std::string name;  ///< of the op
    std::string type;
    std::string domain;
    int opset = 0;
    Attributes attributes;
    std::vector<PartOperand> operands;  ///< may be more than the op's: axes made explicit
    std::vector<PartResult> results;    ///< as Op::outputs
    std::optional<RowMask> row_mask;
};

/// `box` holds at least one position of every factor; of a factor that is not splittable, and of
/// extents of 0, it holds all. Windowed dims need positions without holes. Only for compute ops.
PartOp part_op(const OpGraph& graph, OpId op, const OpRule& rule, const Box& box);

}  // namespace partita::graph
