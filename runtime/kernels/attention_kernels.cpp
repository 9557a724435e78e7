// SPDX-License-Identifier: Apache-2.0
//
// Attention of queries to keys, its linear kin, and rotary positions. Inputs of 3 dims are seen by
// head while they are worked on (heads.h).
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "graph/dtype.h"
#include "runtime/kernels/heads.h"
#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/score_dropout.h"
#include "runtime/kernels/tensors.h"

namespace partita::runtime {

namespace {

/// ONNX's number of an element type in an attribute.
at::ScalarType type_of(std::int64_t number, at::ScalarType fallback) {
    if (number == 0) return fallback;
    return scalar_type_of(static_cast<graph::DType>(number)).value_or(fallback);
}

// --- Attention ---------------------------------------------------------------------------------

constexpr std::size_t kPastKey = 4;
constexpr std::size_t kPastValue = 5;
constexpr std::size_t kKeyLengths = 6;

struct AttentionOperands {
    at::Tensor query, key, value;  ///< [n h s e], keys and values with the past ones
    bool is_packed = false;
    double scale = 1;
};

AttentionOperands attention_operands(const KernelCall& call) {
    AttentionOperands o{.query = call.operand(0), .key = call.operand(1), .value = call.operand(2)};
    o.is_packed = o.query.dim() == 3;
    if (o.is_packed) {
        const std::int64_t key_heads = call.integer("kv_num_heads", 1);
        o.query = by_head(o.query, call.integer("q_num_heads", 1));
        o.key = by_head(o.key, key_heads);
        o.value = by_head(o.value, key_heads);
    }
    if (call.has(kPastKey)) o.key = at::cat({call.operand(kPastKey), o.key}, 2);
    if (call.has(kPastValue)) o.value = at::cat({call.operand(kPastValue), o.value}, 2);
    const double fallback = 1 / std::sqrt(static_cast<double>(o.query.size(3)));
    o.scale = call.real("scale", fallback);
    return o;
}

/// 0 where true, minus infinity elsewhere.
at::Tensor bias_of(const at::Tensor& allowed, const at::Tensor& like) {
    return at::zeros(allowed.sizes(), like.options())
        .masked_fill(allowed.logical_not(), -kInfinity);
}

/// The given mask as a bias, keys that it does not mention masked.
at::Tensor given_bias(const at::Tensor& mask, const AttentionOperands& o) {
    const std::int64_t missing = o.key.size(2) - mask.size(-1);
    const bool is_boolean = mask.scalar_type() == at::kBool;
    const at::Scalar filling = is_boolean ? at::Scalar(false) : at::Scalar(-kInfinity);
    const at::Tensor whole = missing > 0 ? at::constant_pad_nd(mask, {0, missing}, filling) : mask;
    return is_boolean ? bias_of(whole, o.query) : whole;
}

/// Query minus key position [s t], or [n 1 s t] where every entry has its own number of keys.
at::Tensor distances(const KernelCall& call, const AttentionOperands& o) {
    const auto options = o.query.options().dtype(at::kLong);
    const std::int64_t past = call.has(kPastKey) ? call.operand(kPastKey).size(2) : 0;
    const at::Tensor queries = at::arange(o.query.size(2), options).unsqueeze(1);
    const at::Tensor distance = queries - at::arange(o.key.size(2), options);
    if (call.has(kPastKey) || !call.has(kKeyLengths)) return distance + past;
    const at::Tensor lengths = call.operand(kKeyLengths).to(options);
    return distance + (lengths - o.query.size(2)).reshape({-1, 1, 1, 1});
}

/// All that masks keys, or undefined.
at::Tensor attention_bias(const KernelCall& call, const AttentionOperands& o) {
    at::Tensor bias;
    const auto add = [&bias](const at::Tensor& more) {
        bias = bias.defined() ? bias + more : more;
    };
    if (call.has(kMask)) add(given_bias(call.operand(kMask), o));
    const std::int64_t left = call.integer("left_window_size", -1);
    const std::int64_t right = call.integer("right_window_size", -1);
    const bool is_causal = call.integer("is_causal", 0) != 0;
    if (is_causal || left >= 0 || right >= 0) {
        const at::Tensor distance = distances(call, o);
        if (is_causal) add(bias_of(distance.ge(0), o.query));
        if (left >= 0) add(bias_of(distance.le(left), o.query));
        if (right >= 0) add(bias_of(distance.ge(-right), o.query));
    }
    if (call.has(kKeyLengths)) {
        const at::Tensor lengths = call.operand(kKeyLengths).to(o.query.device(), at::kLong);
        const at::Tensor keys = at::arange(o.key.size(2), lengths.options());
        add(bias_of(keys < lengths.reshape({-1, 1, 1, 1}), o.query));
    }
    return bias;
}

/// Y, and what the fourth result shows.
struct Attended {
    at::Tensor result;
    at::Tensor shown;
};

Attended attended(const KernelCall& call, const AttentionOperands& o, const at::Tensor& bias) {
    const std::int64_t mode = call.integer("qk_matmul_output_mode", 0);
    const double cap = call.real("softcap", 0.0);
    const double root = std::sqrt(o.scale);
    const at::Tensor key = repeated(o.key, o.query.size(1));
    at::Tensor scores = at::matmul(o.query * root, (key * root).transpose(2, 3));
    at::Tensor shown = scores;
    if (cap > 0) scores = at::tanh(scores / cap) * cap;
    if (mode == 1) shown = scores;
    if (bias.defined()) scores = scores + bias;
    if (mode == 2) shown = scores;
    const at::ScalarType precision =
        type_of(call.integer("softmax_precision", 0), scores.scalar_type());
    const at::Tensor weights = softmax_of_scores(scores, bias, precision).to(o.query.scalar_type());
    if (mode == 3) shown = weights;
    return {at::matmul(weights, repeated(o.value, o.query.size(1))), shown};
}

/// May ATen's fused function run it? That knows no capped scores and no empty operands.
bool is_fused(const KernelCall& call, const AttentionOperands& o) {
    const bool shows_scores = call.op.results.size() > 3 && call.op.results[3].is_wanted;
    const bool is_empty = o.query.numel() == 0 || o.key.numel() == 0 || o.value.numel() == 0;
    return !is_empty && !shows_scores && call.real("softcap", 0.0) == 0 &&
           call.integer("softmax_precision", 0) == 0 &&
           (!call.has(kMask) || call.operand(kMask).scalar_type() == at::kBool ||
            call.operand(kMask).scalar_type() == o.query.scalar_type());
}

/// Is nothing masked but what ATen's causal function masks, which aligns queries with the first
/// keys, as ONNX does where there are no past ones?
bool is_unmasked(const KernelCall& call) {
    const bool has_window =
        call.integer("left_window_size", -1) >= 0 || call.integer("right_window_size", -1) >= 0;
    const bool has_past = call.has(kPastKey) && call.integer("is_causal", 0) != 0;
    return !has_window && !has_past && !call.has(kMask) && !call.has(kKeyLengths);
}

/// A bias that broadcasts, of all dims, or none.
at::Tensor scores_bias(const KernelCall& call, const AttentionOperands& o) {
    at::Tensor bias = attention_bias(call, o);
    while (bias.defined() && bias.dim() < 4) bias = bias.unsqueeze(0);
    return bias;
}

/// Without the scores being held, forward or backward, but for a mask that has a gradient.
at::Tensor fused(const KernelCall& call, const AttentionOperands& o) {
    const at::Tensor key = repeated(o.key, o.query.size(1));
    const at::Tensor value = repeated(o.value, o.query.size(1));
    if (is_unmasked(call)) {
        return at::scaled_dot_product_attention(o.query, key, value, /*attn_mask=*/std::nullopt,
                                                /*dropout_p=*/0.0,
                                                call.integer("is_causal", 0) != 0, o.scale);
    }
    const at::Tensor bias = scores_bias(call, o);
    const at::Tensor sees_nothing = bias.eq(-kInfinity).all(-1, /*keepdim=*/true);
    return at::scaled_dot_product_attention(o.query, key, value, bias.masked_fill(sees_nothing, 0),
                                            /*dropout_p=*/0.0, /*is_causal=*/false, o.scale)
        .masked_fill(sees_nothing, 0);
}

Tensors attention(const KernelCall& call) {
    const AttentionOperands o = attention_operands(call);
    Attended y;
    if (const ScoreDropout dropout(call); dropout.drops()) {
        y.result = attention_with_dropout(dropout, o.query, repeated(o.key, o.query.size(1)),
                                          repeated(o.value, o.query.size(1)), scores_bias(call, o),
                                          o.scale);
    } else if (is_fused(call, o)) {
        y.result = fused(call, o);
    } else {
        y = attended(call, o, attention_bias(call, o));
    }
    return {o.is_packed ? packed(y.result) : y.result, o.key, o.value, y.shown};
}

// --- LinearAttention ---------------------------------------------------------------------------

// A state S [n h k v] runs through the steps: it decays, loses what the key finds in it (delta),
// gains key x value, and is read by the queries of its head.
Tensors linear_attention(const KernelCall& call) {
    constexpr std::size_t kState = 3;
    constexpr std::size_t kDecay = 4;
    constexpr std::size_t kBeta = 5;
    const std::int64_t query_heads = call.integer("q_num_heads", 1);
    const std::int64_t heads = call.integer("kv_num_heads", 1);
    const at::ScalarType type = call.operand(0).scalar_type();
    const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor query = by_head(call.operand(0).to(wide), query_heads);
    const at::Tensor key = by_head(call.operand(1).to(wide), heads);
    const at::Tensor value = by_head(call.operand(2).to(wide), heads);
    const double fallback = 1 / std::sqrt(static_cast<double>(key.size(3)));
    const double given = call.real("scale", 0.0);
    const double scale = given == 0 ? fallback : given;
    at::Tensor decay;
    if (call.has(kDecay)) decay = by_head(call.operand(kDecay).to(wide), heads).exp();
    at::Tensor beta;
    if (call.has(kBeta)) {
        beta = by_head(call.operand(kBeta).to(wide), call.operand(kBeta).size(2));
    }
    at::Tensor state =
        call.has(kState)
            ? call.operand(kState).to(wide)
            : at::zeros({key.size(0), heads, key.size(3), value.size(3)}, key.options());
    Tensors results;
    for (std::int64_t step = 0; step < query.size(2); ++step) {
        const at::Tensor k = key.select(2, step).unsqueeze(-1);  // [n h k 1]
        at::Tensor v = value.select(2, step).unsqueeze(-2);      // [n h 1 v]
        if (decay.defined()) state = state * decay.select(2, step).unsqueeze(-1);
        if (beta.defined()) {
            v = beta.select(2, step).unsqueeze(-1) * (v - at::matmul(k.transpose(2, 3), state));
        }
        state = state + k * v;
        const at::Tensor q = query.select(2, step).unsqueeze(-2);  // [n (h g) 1 k]
        results.push_back(at::matmul(q, repeated(state, query_heads)).squeeze(-2) * scale);
    }
    const at::ScalarType state_type = call.has(kState) ? call.operand(kState).scalar_type() : type;
    return {packed(at::stack(results, 2)).to(type), state.to(state_type)};
}

// --- RotaryEmbedding ---------------------------------------------------------------------------

/// The first `rotated` of a head's elements turn, in pairs of halves or of neighbours.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                   bool is_interleaved) {
    const Tensors pair = is_interleaved ? x.unflatten(-1, {-1, 2}).unbind(-1) : x.chunk(2, -1);
    const at::Tensor real = cosine * pair[0] - sine * pair[1];
    const at::Tensor imaginary = sine * pair[0] + cosine * pair[1];
    return is_interleaved ? at::stack({real, imaginary}, -1).flatten(-2)
                          : at::cat({real, imaginary}, -1);
}

Tensors rotary_embedding(const KernelCall& call) {
    const at::Tensor& data = call.operand(0);
    const bool is_packed = data.dim() == 3;
    const at::Tensor x = is_packed ? by_head(data, call.integer("num_heads", 1)) : data;
    const std::int64_t given = call.integer("rotary_embedding_dim", 0);
    const std::int64_t size = given == 0 ? x.size(3) : given;
    expect(size >= 0 && size % 2 == 0 && size <= x.size(3),
           "rotary_embedding_dim: expected pairs of a head's elements");
    const auto cache = [&](std::size_t operand) {
        const at::Tensor& table = call.operand(operand);
        if (!call.has(3)) return table.unsqueeze(1);
        const at::Tensor positions = call.operand(3).to(table.device(), at::kLong);
        return table.index_select(0, positions.reshape(-1))
            .reshape({positions.size(0), positions.size(1), -1})
            .unsqueeze(1);
    };
    const at::Tensor turned =
        rotated(x.narrow(3, 0, size), cache(1), cache(2), call.integer("interleaved", 0) != 0);
    const at::Tensor result = at::cat({turned, x.narrow(3, size, x.size(3) - size)}, 3);
    return {is_packed ? packed(result) : result};
}

}  // namespace

std::span<const KernelRow> attention_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "Attention", .forward = attention},
        KernelRow{.type = "LinearAttention", .forward = linear_attention},
        KernelRow{.type = "RotaryEmbedding", .forward = rotary_embedding},
    };
    return kRows;
}

}  // namespace partita::runtime
