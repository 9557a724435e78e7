// SPDX-License-Identifier: Apache-2.0
//
// Attention with its queries, keys and values in blocks, one op for each step of a ring: in step r
// queries of block p meet keys of block p + r, and add to what the steps before left:
//
//     Attention(q, k, v)   ─▶   BlockAttention(q, k, v), step 0             ─┐ u, l, m
//                               BlockAttention(q, k, v, u, l, m), step 1    ◀┘ ─▶ u', l', m'
//                               BlockAttentionResult(u', l')                   ─▶ u' / l'
//
//     m   the largest score of a query yet, minus infinity where it has seen no key
//     l   the sum of exp(score - m)
//     u   the sum of exp(score - m) * value
//
// Where blocks are split over devices each reads in step r the keys and values of the device r further
// on, while it works on those of the step before: Ring Attention. Nobody has to wait for all keys, and
// no more of the scores than a block's are there at a time. In an exact backward m is a constant:
// neither u / l nor its gradient depends on it, so what is saved is the queries, keys and values, m and
// l. Sums are float32, or float64 for float64 queries.
//
// Blocks go to those who need them straight from who has them, not from neighbour to neighbour. Left
// whole: attention with past keys, lengths of keys, windows, capped or wanted scores; and where
// queries or keys cannot be cut into blocks of one size.
// Source: Liu, Zaharia, Abbeel, Ring Attention with Blockwise Transformers for Near-Infinite
// Context, ICLR 2024, section 3; Milakov, Gimelshein, Online normalizer calculation for softmax, 2018.
#pragma once

#include "graph/op_graph.h"

namespace partita::graph {

struct BlockedAttention {
    OpGraph graph;
    int count = 0;  ///< Attention ops that are in blocks
};

/// `blocks`: > 1.
BlockedAttention with_block_attention(const OpGraph& graph, int blocks);

}  // namespace partita::graph
