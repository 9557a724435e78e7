// SPDX-License-Identifier: Apache-2.0
//
// Attention. With h key-value heads, g query heads per key-value head, s queries and t keys:
//
//     Q [n (h g) s e]   K [n h t e]   V [n h t v]  ->  Y [n (h g) s v]     4 dims
//     Q [n s (h g e)]   K [n t (h e)] V [n t (h v)] -> Y [n s (h g v)]     3 dims
//
// e and t are read whole: the softmax stands between the two products. BlockAttention
// (graph/fusion/block_attention.h) has queries and keys in p blocks of q queries and u keys; queries
// of block p meet keys of block p + step, and add to what earlier ones left:
//
//     Q [n (h g) (p q) e]   K [n h (p+step u) e]   V [n h (p+step u) v]   U [n (h g) (p q) v]
//     L [n (h g) (p q)]     M [n (h g) (p q)]      ->  U L M                      4 dims
//
// and with 3 dims as above, L and M [n (p q) (h g)].
#include <algorithm>
#include <cstdint>
#include <utility>

#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

using Dims = std::vector<std::vector<int>>;

// Operands of Attention behind queries, keys and values.
constexpr int kMask = 3;
constexpr int kPastKey = 4;
constexpr int kPastValue = 5;
constexpr int kKeyLengths = 6;

void set_operand(RuleBuilder& b, int operand, const Dims& dims) {
    if (!b.has_operand(operand)) return;
    b.expect_rank(operand, static_cast<int>(dims.size()));
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
        b.operand(operand, static_cast<int>(dim), dims[dim]);
    }
}

void set_result(RuleBuilder& b, int result, const Dims& dims) {
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
        b.result(result, static_cast<int>(dim), dims[dim]);
    }
}

/// A number of heads, from the attribute or, with 4 dims, from the shape.
std::int64_t head_count(RuleBuilder& b, const char* attribute, int operand) {
    if (b.rank(operand) == 4) return b.shape(operand)[1];
    const std::int64_t heads = b.op().attributes.get_int(attribute, 0);
    if (heads < 1) b.fail(std::string("attribute '") + attribute + "': expected a number >= 1");
    return heads;
}

struct Heads {
    std::int64_t query = 1;
    std::int64_t key_value = 1;
};

Heads heads_of(RuleBuilder& b) {
    const Heads heads{.query = head_count(b, "q_num_heads", 0),
                      .key_value = head_count(b, "kv_num_heads", 1)};
    if (heads.key_value < 1 || heads.query % heads.key_value != 0) {
        b.fail("expected a number of query heads divisible by that of key-value heads");
    }
    return heads;
}

/// Extent of the head dim of Q or V.
std::int64_t head_size(RuleBuilder& b, int operand, std::int64_t heads) {
    return b.rank(operand) == 4 ? b.shape(operand)[3] : b.shape(operand)[2] / heads;
}

/// Where what a query attends depends on its position, a part of the queries has to know where it
/// begins. Causal queries are told by how many keys there are for them (attention_part); with past
/// keys there is no operand for that, and windows alone leave later keys in sight.
bool may_split_queries(const RuleBuilder& b) {
    const Attributes& attributes = b.op().attributes;
    const bool has_window = attributes.get_int("left_window_size", -1) >= 0 ||
                            attributes.get_int("right_window_size", -1) >= 0;
    if (attributes.get_int("is_causal", 0) == 0) return !has_window;
    return !b.has_operand(kPastKey) && !b.has_operand(kKeyLengths);
}

/// Scores of a head that are computed: every query meets every key, or those up to its own position.
/// Kernels skip what causal masks hide. Parts of the queries count alike, although later ones see
/// more.
Flops scores_of(const RuleBuilder& b, std::int64_t queries, std::int64_t keys, std::int64_t past) {
    if (b.op().attributes.get_int("is_causal", 0) == 0) return queries * Flops(keys);
    // Query i sees keys 0 to past + i.
    const std::int64_t rising = std::clamp<std::int64_t>(keys - past, 0, queries);
    const Flops triangle((rising * Flops(rising + 1)).raw() / 2);
    return rising * Flops(past) + triangle + (queries - rising) * Flops(keys);
}

}  // namespace

OpRule attention_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    if (rank != 3 && rank != 4) b.fail("operand 0: expected 3 or 4 dims");
    b.expect_rank(1, rank);
    b.expect_rank(2, rank);
    const Heads heads = heads_of(b);
    const int time = rank == 4 ? 2 : 1;
    const std::int64_t keys = b.shape(1)[std::size_t(time)];
    if (b.has_operand(kPastKey)) b.expect_rank(kPastKey, 4);
    const std::int64_t past = b.has_operand(kPastKey) ? b.shape(kPastKey)[2] : 0;

    const int n = b.add("n", b.shape(0)[0]);
    const int h = b.add("h", heads.key_value);
    const int g = b.add("g", heads.query / heads.key_value);
    const int s = b.add("s", b.shape(0)[std::size_t(time)], may_split_queries(b));
    const int t = b.add("t", keys, /*splittable=*/false);
    b.factor(s).contiguous = op.attributes.get_int("is_causal", 0) != 0;
    const int e = b.add("e", head_size(b, 0, heads.query), /*splittable=*/false);
    const int v = b.add("v", head_size(b, 2, heads.key_value));
    const auto dims = [&](std::vector<int> head, int length, int size) {
        if (rank == 4) return Dims{{n}, head, {length}, {size}};
        head.push_back(size);
        return Dims{{n}, {length}, head};
    };
    set_operand(b, 0, dims({h, g}, s, e));
    set_operand(b, 1, dims({h}, t, e));
    set_operand(b, 2, dims({h}, t, v));
    set_operand(b, kPastKey, {{n}, {h}, {}, {e}});
    set_operand(b, kPastValue, {{n}, {h}, {}, {v}});
    set_operand(b, kKeyLengths, {{n}});
    const Dims scores{{n}, {h, g}, {s}, {}};
    for (int dim = 0; dim < b.rank(kMask); ++dim) {
        const int at = dim + 4 - b.rank(kMask);
        if (at >= 0 && at < 3) b.operand(kMask, dim, scores[std::size_t(at)]);
    }
    set_result(b, 0, dims({h, g}, s, v));
    set_result(b, 1, {{n}, {h}, {}, {e}});
    set_result(b, 2, {{n}, {h}, {}, {v}});
    set_result(b, 3, scores);

    // Both products: queries meet keys, past ones too, in e, then in v elements.
    Flops flops = 2 * scores_of(b, b.factor(s).extent, keys + past, past);
    for (const int factor : {n, h, g}) flops = b.factor(factor).extent * flops;
    b.set_flops((b.factor(e).extent + b.factor(v).extent) * flops);
    return b.finish();
}

OpRule block_attention_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    const Heads heads = heads_of(b);
    const int time = rank == 4 ? 2 : 1;
    const std::int64_t blocks = op.attributes.get_int("blocks", 1);
    const std::int64_t step = op.attributes.get_int("step", 0);
    const std::int64_t queries = b.shape(0)[std::size_t(time)];
    const std::int64_t keys = b.shape(1)[std::size_t(time)];
    if (blocks < 1 || step < 0 || step >= blocks || queries % blocks != 0 || keys % blocks != 0) {
        b.fail("expected a step below the number of blocks, and blocks of equal size");
    }
    const int n = b.add("n", b.shape(0)[0]);
    const int h = b.add("h", heads.key_value);
    const int g = b.add("g", heads.query / heads.key_value);
    const int p = b.add("p", blocks);
    const int q = b.add("q", queries / blocks);
    b.factor(q).contiguous = op.attributes.get_int("is_causal", 0) != 0;
    const int u = b.add("u", keys / blocks, /*splittable=*/false);
    const int e = b.add("e", head_size(b, 0, heads.query), /*splittable=*/false);
    const int v = b.add("v", head_size(b, 2, heads.key_value), /*splittable=*/false);
    const auto dims = [&](std::vector<int> head, int inner, int size) {
        if (rank == 4) return Dims{{n}, head, {p, inner}, {size}};
        head.push_back(size);
        return Dims{{n}, {p, inner}, head};
    };
    const Dims rows = rank == 4 ? Dims{{n}, {h, g}, {p, q}} : Dims{{n}, {p, q}, {h, g}};
    set_operand(b, 0, dims({h, g}, q, e));
    set_operand(b, 1, dims({h}, u, e));
    set_operand(b, 2, dims({h}, u, v));
    for (const int operand : {1, 2}) b.rotate(operand, time, step);
    const Dims scores{{n}, {h, g}, {p, q}};
    const int mask_rank = b.rank(kMask);
    for (int dim = 0; dim + 1 < mask_rank; ++dim) {
        b.operand(kMask, dim, scores[std::size_t(dim + 4 - mask_rank)]);
    }
    constexpr int kSum = 4;  // then the sum of weights and the largest score
    set_operand(b, kSum, dims({h, g}, q, v));
    set_operand(b, kSum + 1, rows);
    set_operand(b, kSum + 2, rows);
    set_result(b, 0, dims({h, g}, q, v));
    set_result(b, 1, rows);
    set_result(b, 2, rows);
    Flops flops = 2 * Flops(b.factor(e).extent + b.factor(v).extent);
    for (const int factor : {n, h, g, p, q, u}) flops = b.factor(factor).extent * flops;
    b.set_flops(flops);
    return b.finish();
}

// U [n h s v], L [n h s] -> Y as U, or U [n s (h v)], L [n s h].
OpRule block_attention_result_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const bool is_packed = b.rank(0) == 3;
    const Shape& sums = b.shape(1);
    b.expect_rank(1, 3);
    const int n = b.add("n", sums[0]);
    const int h = b.add("h", sums[is_packed ? 2 : 1]);
    const int s = b.add("s", sums[is_packed ? 1 : 2]);
    const int v = b.add("v", b.shape(0).back() / (is_packed ? sums[2] : 1));
    const Dims dims = is_packed ? Dims{{n}, {s}, {h, v}} : Dims{{n}, {h}, {s}, {v}};
    set_operand(b, 0, dims);
    set_operand(b, 1, is_packed ? Dims{{n}, {s}, {h}} : Dims{{n}, {h}, {s}});
    set_result(b, 0, dims);
    return b.finish();
}

// A recurrent state S [n h k v] runs through the steps t:
//
//     Q [n t (h g k)]  K [n t (h k)]  V [n t (h v)]  S0 [n h k v]  decay [n t (h k)] or [n t h]
//     beta [n t h]     -> Y [n t (h g v)]  S [n h k v]
OpRule linear_attention_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    constexpr int kState = 3;
    constexpr int kDecay = 4;
    constexpr int kBeta = 5;
    RuleBuilder b(graph, op, row);
    b.expect_rank(0, 3);
    b.expect_rank(1, 3);
    b.expect_rank(2, 3);
    const Heads heads = heads_of(b);
    const int n = b.add("n", b.shape(0)[0]);
    const int t = b.add("t", b.shape(0)[1], /*splittable=*/false);
    const int h = b.add("h", heads.key_value);
    const int g = b.add("g", heads.query / heads.key_value);
    const int k = b.add("k", head_size(b, 0, heads.query), /*splittable=*/false);
    const int v = b.add("v", head_size(b, 2, heads.key_value));
    set_operand(b, 0, {{n}, {t}, {h, g, k}});
    set_operand(b, 1, {{n}, {t}, {h, k}});
    set_operand(b, 2, {{n}, {t}, {h, v}});
    set_operand(b, kState, {{n}, {h}, {k}, {v}});
    if (b.has_operand(kDecay)) {
        const bool per_head = b.rank(kDecay) == 3 && b.shape(kDecay)[2] == heads.key_value;
        set_operand(b, kDecay, {{n}, {t}, per_head ? std::vector{h} : std::vector{h, k}});
    }
    set_operand(b, kBeta, {{n}, {t}, {h}});
    set_result(b, 0, {{n}, {t}, {h, g, v}});
    set_result(b, 1, {{n}, {h}, {k}, {v}});
    // Per step and head the state is updated once, and read once per query head.
    const std::string kind = op.attributes.get_string("update_rule", "gated_delta");
    const bool reads_before_writing = kind == "delta" || kind == "gated_delta";
    Flops flops = 2 * Flops(b.factor(g).extent + (reads_before_writing ? 2 : 1));
    for (const int factor : {n, t, h, k, v}) flops = b.factor(factor).extent * flops;
    b.set_flops(flops);
    return b.finish();
}

// X [n h s e] or [n s (h e)], caches [n s .] or, with position ids [n s], [positions .].
OpRule rotary_embedding_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    RuleBuilder b(graph, op, row);
    const int rank = b.rank(0);
    if (rank != 3 && rank != 4) b.fail("operand 0: expected 3 or 4 dims");
    const std::int64_t heads = head_count(b, "num_heads", 0);
    const int n = b.add("n", b.shape(0)[0]);
    const int h = b.add("h", heads);
    const int s = b.add("s", b.shape(0)[rank == 4 ? 2 : 1]);
    const int e = b.add("e", head_size(b, 0, heads), /*splittable=*/false);
    const Dims dims = rank == 4 ? Dims{{n}, {h}, {s}, {e}} : Dims{{n}, {s}, {h, e}};
    set_operand(b, 0, dims);
    set_result(b, 0, dims);
    set_operand(b, 3, {{n}, {s}});
    for (const int cache : {1, 2}) {
        if (b.rank(cache) == 3) set_operand(b, cache, {{n}, {s}, {}});
    }
    return b.finish();
}

}  // namespace partita::graph
