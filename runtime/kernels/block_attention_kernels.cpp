// SPDX-License-Identifier: Apache-2.0
//
// Attention of blocks of queries to a block of the keys each, with a running maximum and running
// sums (graph/fusion/block_attention.h). Worked on by head and block, [n h p q e] and [n h p u e], in the
// type of the sums. With x = scores, M the new maximum and w = exp(x - M):
//
//     U = w V + exp(m - M) u      dV = w^T dU     dx = w * (dU V^T + dL)
//     L = sum w + exp(m - M) l    du = exp(m - M) dU      dl = exp(m - M) dL
//
// A Dropout (score_dropout.h) keeps some of w in the product with V, all of it in the sum.
//
// M is a constant to the backward: no result of the whole depends on it. A part is given the blocks
// of keys that its queries meet in rising order, which is another than theirs where the ring closes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "runtime/kernels/heads.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/random_numbers.h"
#include "runtime/kernels/score_dropout.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

constexpr std::size_t kValues = 4;  ///< the sums before: u, l, m
constexpr std::size_t kWeights = 5;
constexpr std::size_t kLargest = 6;

using Numbers = std::vector<std::int64_t>;

/// Which blocks of all a part has, and what meets what.
struct Meetings {
    Numbers queries;
    Numbers keys;    ///< per block of queries the one that it meets
    Numbers places;  ///< and its place among those that the part has

    explicit Meetings(const KernelCall& call)
        : queries(call.op.attributes.get_ints("query_blocks")) {
        const std::int64_t blocks = call.integer("blocks", 1);
        for (const std::int64_t block : queries) {
            keys.push_back((block + call.integer("step", 0)) % blocks);
        }
        Numbers rising = keys;
        std::ranges::sort(rising);
        for (const std::int64_t block : keys) {
            places.push_back(std::ranges::lower_bound(rising, block) - rising.begin());
        }
    }
};

/// `blocks` along a dim; block i is the one at places[i].
at::Tensor taken(const at::Tensor& blocks, const Numbers& places, int dim) {
    if (std::ranges::is_sorted(places)) return blocks;
    Tensors pieces;
    for (const std::int64_t place : places) pieces.push_back(blocks.narrow(dim, place, 1));
    return at::cat(pieces, dim);
}

/// The inverse.
at::Tensor put_back(const at::Tensor& blocks, const Numbers& places, int dim) {
    Numbers inverse(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        inverse[static_cast<std::size_t>(places[i])] = static_cast<std::int64_t>(i);
    }
    return taken(blocks, inverse, dim);
}

struct BlockOperands {
    bool is_packed = false;
    double scale = 1;
    Meetings blocks;
    at::Tensor query, key, value;  ///< as many heads of each

    BlockOperands(const KernelCall& call, at::ScalarType type)
        : is_packed(call.operand(0).dim() == 3), blocks(call) {
        const auto by_block = [&](std::size_t operand, const char* heads) {
            const at::Tensor& given = call.operand(operand);
            const at::Tensor apart = is_packed ? by_head(given, call.integer(heads, 1)) : given;
            return in_blocks(apart.to(type));
        };
        query = by_block(0, "q_num_heads");
        scale = call.real("scale", 1 / std::sqrt(static_cast<double>(query.size(4))));
        key = repeated(taken(by_block(1, "kv_num_heads"), blocks.places, 2), query.size(1));
        value = repeated(taken(by_block(2, "kv_num_heads"), blocks.places, 2), query.size(1));
    }

    /// [n h s ...] -> [n h p q ...]
    [[nodiscard]] at::Tensor in_blocks(const at::Tensor& heads) const {
        return heads.unflatten(2, {std::ssize(blocks.queries), -1});
    }
    /// [n h p q] of what the op has as [n h s], or as [n s h].
    [[nodiscard]] at::Tensor rows(const at::Tensor& given) const {
        return in_blocks(is_packed ? given.transpose(1, 2) : given);
    }
    [[nodiscard]] at::Tensor given_rows(const at::Tensor& rows) const {
        const at::Tensor flat = rows.flatten(2, 3);
        return is_packed ? flat.transpose(1, 2) : flat;
    }
    /// [n h p q e] of what the op has as [n h s e], or as [n s (h e)].
    [[nodiscard]] at::Tensor heads(const at::Tensor& given) const {
        return in_blocks(is_packed ? by_head(given, query.size(1)) : given);
    }
    [[nodiscard]] at::Tensor given_heads(const at::Tensor& heads) const {
        const at::Tensor flat = heads.flatten(2, 3);
        return is_packed ? packed(flat) : flat;
    }
    /// Of keys or values: the sum over the query heads that each serves.
    [[nodiscard]] at::Tensor given_keys(const at::Tensor& heads, const KernelCall& call,
                                        std::size_t operand) const {
        const std::int64_t count =
            is_packed ? call.integer("kv_num_heads", 1) : call.operand(operand).size(1);
        const at::Tensor sums = heads.unflatten(1, {count, -1}).sum(2);
        return given_heads(put_back(sums, blocks.places, 2))
            .to(call.operand(operand).scalar_type());
    }
};

/// Of a mask of all keys, cut into `count` blocks, [... s t] or [... 1 t]: what each block of queries
/// meets, [... p q u].
at::Tensor met(const at::Tensor& given, const Meetings& blocks, std::int64_t count) {
    const at::Tensor mask = given.dim() < 2 ? given.unsqueeze(0) : given;
    const bool has_rows = mask.size(-2) != 1;
    const at::Tensor rows =
        has_rows ? mask.unflatten(-2, {std::ssize(blocks.keys), -1}) : mask.unsqueeze(-3);
    const std::int64_t keys = mask.size(-1) / count;
    Tensors pieces;
    for (std::size_t i = 0; i < blocks.keys.size(); ++i) {
        const at::Tensor row = rows.select(-3, has_rows ? static_cast<std::int64_t>(i) : 0);
        pieces.push_back(row.narrow(-1, blocks.keys[i] * keys, keys));
    }
    return at::stack(pieces, -3);
}

at::Tensor mask_gradient(const KernelCall& call, const Meetings& blocks,
                         const at::Tensor& of_scores) {
    const at::Tensor& mask = call.operand(kMask);
    const at::AutoGradMode grad(true);
    const at::Tensor leaf = mask.detach().requires_grad_(true);
    const at::Tensor used = met(leaf, blocks, call.integer("blocks", 1));
    const at::Tensor given = unbroadcast(of_scores, used.sizes().vec()).to(mask.scalar_type());
    return torch::autograd::grad({used}, {leaf}, {given})[0];
}

/// Of the part's i-th block of queries [n h q u]. Whole blocks are seen, or hidden, but for those that
/// the diagonal goes through.
at::Tensor causal(const at::Tensor& scores, std::size_t i, const Meetings& blocks,
                  const KernelCall& call) {
    const std::int64_t first_query =
        blocks.queries[i] * call.integer("block_queries", 1) + call.integer("first_query", 0);
    const std::int64_t first_key = blocks.keys[i] * scores.size(3);
    if (first_key + scores.size(3) <= first_query + 1) return scores;
    if (first_key >= first_query + scores.size(2)) return at::full_like(scores, -kInfinity);
    const auto options = scores.options().dtype(at::kLong).requires_grad(false);
    const at::Tensor queries = at::arange(first_query, first_query + scores.size(2), options);
    const at::Tensor keys = at::arange(first_key, first_key + scores.size(3), options);
    return scores.masked_fill(queries.unsqueeze(1) < keys, -kInfinity);
}

/// Minus infinity where a query may not attend a key.
at::Tensor scores_of(const KernelCall& call, const BlockOperands& o) {
    at::Tensor scores = at::matmul(o.query * o.scale, o.key.transpose(3, 4));
    if (call.has(kMask)) {
        const at::Tensor mask = met(call.operand(kMask), o.blocks, call.integer("blocks", 1));
        const bool is_boolean = mask.scalar_type() == at::kBool;
        scores = is_boolean ? scores.masked_fill(mask.logical_not(), -kInfinity) : scores + mask;
    }
    if (call.integer("is_causal", 0) == 0) return scores;
    Tensors masked;
    for (std::size_t i = 0; i < o.blocks.queries.size(); ++i) {
        masked.push_back(causal(scores.select(2, static_cast<std::int64_t>(i)), i, o.blocks, call));
    }
    return at::stack(masked, 2);
}

/// What a Dropout keeps of weights [n h p q u], or of their gradient.
at::Tensor kept_of(const KernelCall& call, const BlockOperands& o, const ScoreDropout& dropout,
                   const at::Tensor& weights) {
    if (!dropout.drops()) return weights;
    const std::int64_t block = weights.size(4);
    Tensors keys;
    for (const std::int64_t met : o.blocks.keys) {
        keys.push_back(positions_of(call, {graph::Range{met * block, (met + 1) * block}}));
    }
    return dropout.applied(weights, o.in_blocks(dropout.rows()), at::stack(keys).unsqueeze(1));
}

/// The largest score, or 0 where no key was seen: what is subtracted.
at::Tensor finite(const at::Tensor& largest) {
    return largest.masked_fill(largest.eq(-kInfinity), 0);
}

Tensors block_attention(const KernelCall& call) {
    const auto type = scalar_type_of(call.op.results[0].dtype).value_or(at::kFloat);
    const BlockOperands o(call, type);
    const at::Tensor scores = scores_of(call, o);
    at::Tensor largest = scores.detach().amax(-1);
    const bool is_first = !call.has(kValues);
    if (!is_first) largest = at::maximum(largest, o.rows(call.operand(kLargest)).detach());
    const at::Tensor subtracted = finite(largest);
    const at::Tensor weights = at::exp(scores - subtracted.unsqueeze(-1));
    at::Tensor values = at::matmul(kept_of(call, o, ScoreDropout(call), weights), o.value);
    at::Tensor sum = weights.sum(-1);
    if (!is_first) {
        const at::Tensor share = at::exp(o.rows(call.operand(kLargest)).detach() - subtracted);
        values = values + o.heads(call.operand(kValues)) * share.unsqueeze(-1);
        sum = sum + o.rows(call.operand(kWeights)) * share;
    }
    return {o.given_heads(values), o.given_rows(sum), o.given_rows(largest)};
}

Tensors block_attention_backward(const BackwardCall& call) {
    const at::Tensor& largest = call.results[2];
    const BlockOperands o(call, largest.scalar_type());
    const at::Tensor subtracted = finite(o.rows(largest));
    const at::Tensor weights = at::exp(scores_of(call, o) - subtracted.unsqueeze(-1));
    at::Tensor of_weights = at::zeros_like(weights);
    Tensors gradients(call.operand_shapes.size());
    const at::Tensor values =
        call.gradients[0].defined() ? o.heads(call.gradients[0]) : at::Tensor();
    const at::Tensor sum = call.gradients[1].defined() ? o.rows(call.gradients[1]) : at::Tensor();
    if (values.defined()) {
        const ScoreDropout dropout(call);
        of_weights = kept_of(call, o, dropout, at::matmul(values, o.value.transpose(3, 4)));
        const at::Tensor kept = kept_of(call, o, dropout, weights);
        const at::Tensor of_value = at::matmul(kept.transpose(3, 4), values);
        if (call.wants(2)) gradients[2] = o.given_keys(of_value, call, 2);
    }
    if (sum.defined()) of_weights = of_weights + sum.unsqueeze(-1);
    const at::Tensor of_scores = weights * of_weights;
    if (call.wants(0)) {
        const at::Tensor of_query = at::matmul(of_scores, o.key) * o.scale;
        gradients[0] = o.given_heads(of_query).to(call.operand(0).scalar_type());
    }
    if (call.wants(1)) {
        const at::Tensor of_key = at::matmul(of_scores.transpose(3, 4), o.query) * o.scale;
        gradients[1] = o.given_keys(of_key, call, 1);
    }
    if (call.wants(kMask)) gradients[kMask] = mask_gradient(call, o.blocks, of_scores);
    if (!call.has(kLargest)) return gradients;
    const at::Tensor share = at::exp(o.rows(call.operand(kLargest)) - subtracted);
    if (values.defined()) gradients[kValues] = o.given_heads(values * share.unsqueeze(-1));
    if (sum.defined()) gradients[kWeights] = o.given_rows(sum * share);
    return gradients;
}

// --- BlockAttentionResult ----------------------------------------------------------------------

/// [n s (h v)] as [n s h v] for rows [n s h]; [n h s v] as it is.
at::Tensor apart(const at::Tensor& heads, const at::Tensor& rows) {
    return heads.dim() == 3 ? heads.unflatten(2, {rows.size(2), -1}) : heads;
}

/// Times the same number for each of a head's values.
at::Tensor times_rows(const at::Tensor& heads, const at::Tensor& rows) {
    return (apart(heads, rows) * rows.unsqueeze(-1)).reshape(heads.sizes());
}

/// 0 for queries that may attend no key.
at::Tensor shares_of(const at::Tensor& sums) {
    return sums.reciprocal().masked_fill(sums.eq(0), 0);
}

Tensors block_attention_result(const KernelCall& call) {
    const auto type = scalar_type_of(call.op.results[0].dtype).value_or(at::kFloat);
    return {times_rows(call.operand(0), shares_of(call.operand(1))).to(type)};
}

Tensors block_attention_result_backward(const BackwardCall& call) {
    Tensors gradients(2);
    if (!call.gradients[0].defined()) return gradients;
    const at::Tensor& sums = call.operand(1);
    const at::Tensor shares = shares_of(sums);
    const at::Tensor given = call.gradients[0].to(sums.scalar_type());
    if (call.wants(0)) gradients[0] = times_rows(given, shares);
    if (call.wants(1)) {
        gradients[1] = -apart(given * call.results[0], sums).sum(-1) * shares;
    }
    return gradients;
}

}  // namespace

std::span<const KernelRow> block_attention_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "BlockAttention",
                  .forward = block_attention,
                  .backward = block_attention_backward,
                  .domain = "partita"},
        KernelRow{.type = "BlockAttentionResult",
                  .forward = block_attention_result,
                  .backward = block_attention_result_backward,
                  .domain = "partita"},
    };
    return kRows;
}

}  // namespace partita::runtime
