// SPDX-License-Identifier: Apache-2.0
//
// Recurrent layers. q = 4 (LSTM), 3 (GRU) or 1 (RNN) gates of h units, d directions, s steps:
//
//     X [s b i]  W [d (q h) i]  R [d (q h) k]  B [d (two q h)]  lengths [b]  H0 [d b k]
//     LSTM also: C0 [d b h]  P [d (three h)]         ->  Y [s d b h]  Yh [d b h]  Yc [d b h]
//
// k is h, read whole: every unit of a step needs all units of the step before. So h is split only
// where there is one step, as in a layer expanded into its steps; s never is. Of a GRU h never is:
// a unit mixes its own old state in, and a part is given all old states without knowing which are
// its own; one that resets before its matrix product also needs all reset gates within the step.
#include "graph/operators/op_rules.h"

namespace partita::graph {

namespace {

struct RecurrentKind {
    int gates = 1;
    bool has_cell = false;     ///< LSTM: cell state and peepholes
    bool mixes_units = false;  ///< units cannot be told apart within one step
    int initial_cell = 6;
    int peepholes = 7;
};

struct RecurrentFactors {
    int s, b, d, q, h, i, k;
};

RecurrentFactors add_recurrent_factors(RuleBuilder& b, const RecurrentKind& kind,
                                       bool batch_first) {
    b.expect_rank(0, 3);
    b.expect_rank(1, 3);
    b.expect_rank(2, 3);
    const Shape& data = b.shape(0);
    const Shape& recurrent = b.shape(2);
    const std::int64_t steps = data[batch_first ? 1 : 0];
    const std::int64_t units = recurrent[2];
    // Which parameter belongs to which direction's functions depends on what functions these are.
    const bool has_parameters = b.op().attributes.find("activation_alpha") != nullptr ||
                                b.op().attributes.find("activation_beta") != nullptr;
    return {.s = b.add("s", steps, /*splittable=*/steps == 1),
            .b = b.add("b", data[batch_first ? 0 : 1]),
            .d = b.add("d", recurrent[0], !has_parameters),
            .q = b.add("q", kind.gates, /*splittable=*/false),
            .h = b.add("h", units, steps == 1 && !kind.mixes_units),
            .i = b.add("i", data[2]),
            .k = b.add("k", units)};
}

/// Two per multiply-add of every step, sequence, direction, gate, unit and what it reads.
Flops recurrent_flops(RuleBuilder& b, const RecurrentFactors& f) {
    const auto extent = [&b](int factor) { return b.factor(factor).extent; };
    Flops flops = 2 * Flops(extent(f.i) + extent(f.h));
    for (const int factor : {f.s, f.b, f.d, f.q, f.h}) flops = extent(factor) * flops;
    return flops;
}

OpRule recurrent_rule(const OpGraph& graph, const Op& op, const OpRow& row,
                      const RecurrentKind& kind) {
    RuleBuilder b(graph, op, row);
    const bool batch_first = op.attributes.get_int("layout", 0) != 0;
    const RecurrentFactors f = add_recurrent_factors(b, kind, batch_first);
    const auto set_operand = [&b](int operand, const std::vector<std::vector<int>>& dims) {
        if (!b.has_operand(operand)) return;
        b.expect_rank(operand, static_cast<int>(dims.size()));
        for (std::size_t dim = 0; dim < dims.size(); ++dim) {
            b.operand(operand, static_cast<int>(dim), dims[dim]);
        }
    };
    const auto set_result = [&b](int result, const std::vector<std::vector<int>>& dims) {
        for (std::size_t dim = 0; dim < dims.size(); ++dim) {
            b.result(result, static_cast<int>(dim), dims[dim]);
        }
    };
    using Letters = std::vector<std::vector<int>>;
    const auto state = [&](int unit) {
        return batch_first ? Letters{{f.b}, {f.d}, {unit}} : Letters{{f.d}, {f.b}, {unit}};
    };
    set_operand(0, batch_first ? Letters{{f.b}, {f.s}, {f.i}} : Letters{{f.s}, {f.b}, {f.i}});
    set_operand(1, {{f.d}, {f.q, f.h}, {f.i}});
    set_operand(2, {{f.d}, {f.q, f.h}, {f.k}});
    if (b.has_operand(3)) {
        const int two = b.add("two", 2, /*splittable=*/false);
        set_operand(3, {{f.d}, {two, f.q, f.h}});
    }
    set_operand(4, {{f.b}});
    set_operand(5, state(f.k));
    if (kind.has_cell) {
        set_operand(kind.initial_cell, state(f.h));
        if (b.has_operand(kind.peepholes)) {
            const int three = b.add("three", 3, /*splittable=*/false);
            set_operand(kind.peepholes, {{f.d}, {three, f.h}});
        }
    }
    set_result(
        0, batch_first ? Letters{{f.b}, {f.s}, {f.d}, {f.h}} : Letters{{f.s}, {f.d}, {f.b}, {f.h}});
    set_result(1, state(f.h));
    if (kind.has_cell) set_result(2, state(f.h));
    b.set_flops(recurrent_flops(b, f));
    return b.finish();
}

}  // namespace

OpRule lstm_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    return recurrent_rule(graph, op, row, {.gates = 4, .has_cell = true});
}

OpRule gru_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    return recurrent_rule(graph, op, row, {.gates = 3, .mixes_units = true});
}

OpRule rnn_rule(const OpGraph& graph, const Op& op, const OpRow& row) {
    return recurrent_rule(graph, op, row, {.gates = 1});
}

}  // namespace partita::graph
