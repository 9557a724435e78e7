// SPDX-License-Identifier: Apache-2.0
//
// OpRule: one op seen as a loop nest. Its factors are the loops; every dim of every operand and
// result says which factors it is made of. Everything about splitting follows from it: legal
// degrees, SOAP classes, layouts of operands and results, FLOPs and bytes of a part.
//
//     MatMul [8 64] x [64 32]      factor  extent   X [m k]    W [k n]    Y [m n]
//                                  m       8        dim 0      -          dim 0     free
//                                  n       32       -          dim 1      dim 1     free
//                                  k       64       dim 1      dim 0      -         reduction, sum
//
// A dim made of several factors, major to minor, is a merged dim: Reshape [b s h] -> [(b s) h]. A
// factor of one tensor may also be the minor part of another's dim: Split into 3 reads (3 f) and
// writes f three times. A windowed dim reads more than its share of the operand: a part of `n`
// outputs from output `i` on reads operand positions
//
//     floor((i*stride - before) / divisor) ... floor(((i+n-1)*stride + after) / divisor), clipped:
//
// the halo of a Conv, the shifted range of a Slice, the stretched one of a Resize.
//
// Source: the notation of einsum; factors as in Shardy's sharding rules; RULES.md 1-9.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "graph/ids.h"
#include "graph/op_graph.h"

namespace partita::graph {

/// How parts of a reduction combine; `none` = a reduction that cannot be split. `log_sum_exp`: to
/// log(exp(a) + exp(b)).
enum class Combine : std::uint8_t { none, sum, max, min, product, log_sum_exp };
std::string_view name_of(Combine combine);

struct Factor {
    std::string name;         ///< a letter or a short word; unique in the rule
    std::int64_t extent = 1;  ///< >= 0
    /// False: results read all of it, its positions have a meaning of their own (causal masks,
    /// arg-max), or its extent depends on data.
    bool splittable = true;
    /// A part holds positions that follow one another: it has to know where it is by its first one
    /// (queries of causal attention).
    bool contiguous = false;
    bool reduction = false;  ///< in no result: parts are partial, joined by `combine`
    Combine combine = Combine::none;
    friend bool operator==(const Factor&, const Factor&) = default;
};

/// A windowed operand dim, per output position of its factor (Conv, pooling, Slice, Pad, Resize).
/// It may name a few more positions than are read, never fewer.
struct Window {
    std::int64_t stride = 1;
    std::int64_t before = 0;  ///< operand positions before i*stride that output i reads; may be < 0
    std::int64_t after = 0;   ///< and after
    std::int64_t divisor = 1;  ///< > 1 where the result is longer than the operand (ConvTranspose)
    friend bool operator==(const Window&, const Window&) = default;
};

/// Positions [begin, end).
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    friend bool operator==(const Range&, const Range&) = default;
};

/// The positions that the outputs read, before clipping; `outputs` holds one or more.
Range unclipped_range(const Window& window, Range outputs);

/// The positions of an operand dim of `extent` that the outputs in `outputs` read; empty when these
/// lie wholly in the padding, or are none.
Range operand_range(const Window& window, Range outputs, std::int64_t extent);

struct DimRule {
    std::vector<int> factors;  ///< indices into OpRule::factors, major to minor; empty: never split
    std::optional<Window> window;  ///< only with exactly one factor
    /// Position i of the major factor stands for block (i + rotation) mod its extent of the dim: what
    /// a device has that is so many further in a ring (BlockAttention; 0 in its first step).
    std::optional<std::int64_t> rotation;
    friend bool operator==(const DimRule&, const DimRule&) = default;
};

struct TensorRule {
    std::vector<DimRule> dims;
    bool linear = false;      ///< operands: the op is linear in it, so it may be sum-partial
    bool apply_once = false;  ///< operands: applied by one part of a reduction only (Gemm's bias)
    friend bool operator==(const TensorRule&, const TensorRule&) = default;
};

struct OpRule {
    std::vector<Factor> factors;
    std::vector<TensorRule> operands;  ///< as Op::inputs; an operand left out has no dims
    std::vector<TensorRule> results;   ///< as Op::outputs
    /// The operands marked linear add up (Add, Concat, Where), so on a summand axis all of them are
    /// partial, or one part alone applies those that are not. False: they multiply (MatMul), so
    /// exactly one is partial (RULES.md 7).
    bool additive = false;
    Flops flops;  ///< of the whole op, forward, two per multiply-add
    /// Bytes read and written, where that is not all operands plus all results: a Gather reads only
    /// the rows it returns.
    std::optional<Bytes> bytes_moved;
    bool matrix_product = false;  ///< MatMul, Gemm, Conv, LSTM, ...: runs on matrix units
    /// Bit i: operand (result) i must be kept until the op's backward has run. From bit 63 on: all.
    std::uint64_t saves_operands = 0;
    std::uint64_t saves_results = 0;
    /// No row, no shared rule: contract 7's rule "not splittable, cost by bytes moved".
    bool conservative = false;
    /// Moves or renames bytes without reading them (Reshape, Identity, ...): results alias operand
    /// 0.
    bool alias = false;

    /// Must the operand (or result) be kept until the op's backward has run?
    [[nodiscard]] bool saves_operand(std::size_t i) const { return is_set(saves_operands, i); }
    [[nodiscard]] bool saves_result(std::size_t i) const { return is_set(saves_results, i); }
    /// Must the operand be kept where only some operands have a gradient? The gradient of one in
    /// which the op is linear does not depend on that operand: it is kept for those of others, such
    /// as that of a scale that is trained. `gradient`: per operand.
    [[nodiscard]] bool saves_operand(std::size_t i, std::span<const char> gradient) const {
        const bool own = operands[i].linear && gradient[i] != 0;
        const auto wanted = std::ranges::count_if(gradient, [](char has) { return has != 0; });
        return saves_operand(i) && wanted > (own ? 1 : 0);
    }
    friend bool operator==(const OpRule&, const OpRule&) = default;

private:
    static bool is_set(std::uint64_t bits, std::size_t i) {
        return ((bits >> std::min<std::size_t>(i, 63)) & 1U) != 0;
    }
};

/// The rule of one op of a graph whose shapes are concrete. Pure. Never throws for an operator it
/// does not know (conservative rule); throws InputError naming the op when its shapes contradict
/// its row (an importer or a user built a wrong graph).
OpRule rule_of(const OpGraph& graph, OpId op);

/// rule_of() for every op, indexed by OpId.
std::vector<OpRule> rules_of(const OpGraph& graph);

}  // namespace partita::graph
