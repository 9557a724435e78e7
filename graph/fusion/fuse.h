// SPDX-License-Identifier: Apache-2.0
//
// Pointwise ops that the engine runs as one kernel, by expressions over ONNX operators:
//
//     Mul(Mul(g, Sigmoid(g)), u)      gate ─┬─▶ Sigmoid ─▶ Mul ─▶ Mul ─▶      gate ─▶ Pointwise ─▶
//                                           └─────────────▶╯      ▲             up ──────▲
//                                                         up ─────╯
//
// Small letters stand for any tensor, the same one wherever the letter comes again; operands of Add
// and Mul may be swapped. Operators must be pointwise (the op table's "... -> ..." and
// "..., ... -> ..."). What they are found in becomes one op of the domain "partita" with the ops as
// its body (op_rules_pointwise.cpp): what they hand each other is neither kept nor moved, and the
// backward computes it once more. Nothing is fused whose inner values somebody else reads, too.
//
// "gelu" and "gelu-tanh" whose constants are known, and are those of the function, become ONNX's Gelu,
// which engines have one kernel for; with other constants they are kernels like others.
//
// "linear" is a MatMul with one matrix and the bias that is added to it: one op of the domain
// "partita", which has the rule of MatMul.
//
// "transposes" is none of these: every Transpose becomes one of the domain "partita", a view that
// moves nothing, as in engines whose kernels read through strides.
//
// "unaligned-products" is none either: every product of matrices of which some rows are no multiple of 16
// bytes says so (Op::row_bytes), for engines that hand them to the library as they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/fusion/number_of.h"
#include "graph/op_graph.h"

namespace partita::graph {

/// A fused kernel that people know by a name.
struct NamedKernel {
    std::string_view name;
    std::string_view expression;
    std::string_view source;  ///< whose kernel it is
};
std::span<const NamedKernel> named_kernels();

inline constexpr std::string_view kLinearKernel = "linear";

/// Names that mark ops and fuse nothing.
inline constexpr std::string_view kTransposes = "transposes";
inline constexpr std::string_view kUnalignedProducts = "unaligned-products";

struct Fused {
    OpGraph graph;
    std::vector<int> counts;  ///< how often each of `kernels` was found
};

enum class MissingKernel : std::uint8_t { refuse, leave_out };

/// `kernels`: names, or expressions; an op goes to the first that it is found in. Throws UsageError
/// naming `file` and the kernel for one that is neither, or that the model has not.
Fused fused(const OpGraph& graph, const std::vector<std::string>& kernels, const std::string& file,
            const NumberOf& number, MissingKernel missing = MissingKernel::refuse);

}  // namespace partita::graph
