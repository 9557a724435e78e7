// SPDX-License-Identifier: Apache-2.0
//
// Attention as exporters write it, products of four dims [batch heads length size] with a softmax
// between, becomes ONNX's Attention, which never holds the scores:
//
//     MatMul(Softmax(MatMul(q, kT) * c + m), v)        ─▶        Attention(q * c, k, v, m)
//
// The scale (Mul or Div by one element) goes to the queries, and k is kT turned back: the
// transposition that made it changes, or there is one more. Scale and mask may be missing; in place
// of the sum a Where may put a number of -10,000 or less where keys are hidden (masked_fill), and its
// condition, or its inverse, becomes the mask. A Where that replaces what is not a number after the
// softmax by zero goes: queries that may attend no key get zeros from Attention. So does a Dropout
// that does not train. One that does, by a constant ratio, becomes part of the op, which then drops the
// elements of the softmax that the Dropout would have dropped: attributes of ours name ratio and Dropout
// (kDropoutRatio, kDropoutName). Several masks are added up first, where their sum is no larger than one
// of them. Left as they are: a Dropout of which a model's input decides whether it trains, or whose mask
// is read, a condition beside a mask, scores that somebody else reads.
#pragma once

#include <string_view>

#include "graph/fusion/number_of.h"
#include "graph/op_graph.h"

namespace partita::graph {

/// Attributes of Attention and BlockAttention, in [0, 1) and a name: what is dropped of the softmax's
/// result, and the Dropout op whose numbers say which elements; `seed` is its, too.
inline constexpr std::string_view kDropoutRatio = "dropout_ratio";
inline constexpr std::string_view kDropoutName = "dropout_name";

struct FusedAttention {
    OpGraph graph;
    int count = 0;  ///< Attention ops that were made
};

/// How many there are.
int products_as_attention(const OpGraph& graph, const NumberOf& number);

FusedAttention with_fused_attention(const OpGraph& graph, const NumberOf& number);

}  // namespace partita::graph
