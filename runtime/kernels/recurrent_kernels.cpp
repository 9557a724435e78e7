// SPDX-License-Identifier: Apache-2.0
//
// LSTM, GRU, RNN. The inputs of all steps are projected by one matrix product; each step adds
// another, of the hidden state. Autograd differentiates all of them.
#include <array>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "runtime/kernels/kernel_table.h"
#include "runtime/kernels/recurrent_cells.h"

namespace partita::runtime {

namespace {

const std::vector<std::string>& lstm_defaults() {
    static const std::vector<std::string> kNames{"sigmoid", "tanh", "tanh"};
    return kNames;
}

at::Tensor sum_of(const at::Tensor& a, const at::Tensor& b) {
    if (!a.defined()) return b;
    return b.defined() ? a + b : a;
}

/// X W^T + bias of all steps: [s b (q h)].
at::Tensor projected(const at::Tensor& steps, const at::Tensor& weight, const at::Tensor& bias) {
    const at::Tensor rows = steps.reshape({-1, steps.size(2)});
    const at::Tensor product =
        bias.defined() ? at::addmm(bias, rows, weight.t()) : at::mm(rows, weight.t());
    return product.reshape({steps.size(0), steps.size(1), weight.size(0)});
}

// --- LSTM --------------------------------------------------------------------------------------
//
// Gates in ONNX's order: input, output, forget, candidate.

State lstm_direction(const KernelCall& call, const Recurrence& r, const Direction& d,
                     const Activation* functions) {
    const bool forgets_input = call.integer("input_forget", 0) != 0;
    const Tensors peepholes = d.peepholes.defined() ? d.peepholes.chunk(3) : Tensors(3);
    const auto peeped = [&](const at::Tensor& gate, std::size_t peephole, const at::Tensor& cell) {
        return peepholes[peephole].defined() ? gate + peepholes[peephole] * cell : gate;
    };
    const at::Tensor recurrent = d.recurrent_weight.t();
    const Cell cell = [&](const at::Tensor& inputs, const State& state) -> State {
        const Tensors gates = at::addmm(inputs, state[0], recurrent).chunk(4, -1);
        const at::Tensor in = functions[0](peeped(gates[0], 0, state[1]));
        const at::Tensor keep =
            forgets_input ? 1 - in : functions[0](peeped(gates[2], 2, state[1]));
        const at::Tensor next = keep * state[1] + in * functions[1](gates[3]);
        const at::Tensor out = functions[0](peeped(gates[1], 1, next));
        return {out * functions[2](next), next};
    };
    const at::Tensor steps =
        projected(in_order(r, d, r.data), d.input_weight, sum_of(d.input_bias, d.recurrent_bias));
    return run_steps(r, steps, {d.hidden, d.cell}, cell);
}

// --- the default LSTM --------------------------------------------------------------------------
//
// ATen has it as one function, on oneDNN or cuDNN, with gates in the order input, forget,
// candidate, output. Measured on one core against a loop over steps with a backward of its own,
// which needs one product per weight: 2.3 to 4.4 times as fast, forward and backward, for 48 to
// 1024 units.

bool is_default_lstm(const KernelCall& call, const Recurrence& r) {
    const bool holds_all_units = r.directions[0].hidden.size(1) == r.units;
    return has_default_activations(call, lstm_defaults()) && !call.has(kLengths) &&
           !call.has(kPeepholes) && call.integer("input_forget", 0) == 0 && holds_all_units;
}

at::Tensor in_aten_order(const at::Tensor& gates) {
    const Tensors each = gates.chunk(4);
    return at::cat({each[0], each[2], each[3], each[1]});
}

/// At every call ATen tells users of cuDNN to keep weights in one block. A plan keeps them as the
/// model has them.
class NoWarnings final : public c10::WarningHandler {
    void process(const c10::Warning& /*warning*/) override {}
};

// ATen's second direction runs backwards; a single one that does gets its steps so.
Tensors default_lstm(const Recurrence& r) {
    Tensors weights;
    Tensors hidden;
    Tensors cells;
    const bool has_biases = r.directions[0].input_bias.defined();
    for (const Direction& d : r.directions) {
        weights.push_back(in_aten_order(d.input_weight));
        weights.push_back(in_aten_order(d.recurrent_weight));
        if (has_biases) weights.push_back(in_aten_order(d.input_bias));
        if (has_biases) weights.push_back(in_aten_order(d.recurrent_bias));
        hidden.push_back(d.hidden);
        cells.push_back(d.cell);
    }
    const bool is_bidirectional = r.directions.size() == 2;
    const Direction only{.is_reversed = !is_bidirectional && r.directions[0].is_reversed};
    NoWarnings nothing;
    const c10::WarningUtils::WarningHandlerGuard guard(&nothing);
    const auto [all, last, cell] =
        at::lstm(in_order(r, only, r.data), {side_by_side(hidden, 0), side_by_side(cells, 0)},
                 weights, has_biases, /*num_layers=*/1, /*dropout=*/0.0,
                 /*train=*/at::GradMode::is_enabled(), is_bidirectional, /*batch_first=*/false);
    const auto directions = static_cast<std::int64_t>(r.directions.size());
    const at::Tensor steps = in_order(r, only, all).unflatten(2, {directions, r.units});
    if (!r.is_batch_first) return {steps.transpose(1, 2), last, cell};
    return {steps.transpose(0, 1), last.transpose(0, 1), cell.transpose(0, 1)};
}

Tensors lstm(const KernelCall& call) {
    const Recurrence r = recurrence_of(call, 4);
    if (is_default_lstm(call, r)) return default_lstm(r);
    const std::vector<Activation> functions = activations_of(call, lstm_defaults());
    std::vector<State> directions;
    for (std::size_t d = 0; d < r.directions.size(); ++d) {
        directions.push_back(lstm_direction(call, r, r.directions[d], &functions[3 * d]));
    }
    return joined(r, directions);
}

// --- GRU ---------------------------------------------------------------------------------------
//
// Gates in ONNX's order: update, reset, candidate.

State gru_direction(const KernelCall& call, const Recurrence& r, const Direction& d,
                    const Activation* functions) {
    const bool resets_late = call.integer("linear_before_reset", 0) != 0;
    const std::int64_t h = r.units;
    // The candidate's recurrent bias is reset too where the product is.
    at::Tensor bias = sum_of(d.input_bias, d.recurrent_bias);
    at::Tensor late_bias;
    if (resets_late && d.recurrent_bias.defined()) {
        late_bias = d.recurrent_bias.narrow(0, 2 * h, h);
        bias = at::cat({bias.narrow(0, 0, 2 * h), d.input_bias.narrow(0, 2 * h, h)});
    }
    const at::Tensor gate_weight = d.recurrent_weight.narrow(0, 0, 2 * h).t();
    const at::Tensor candidate_weight = d.recurrent_weight.narrow(0, 2 * h, h).t();
    const Cell cell = [&](const at::Tensor& inputs, const State& state) -> State {
        const at::Tensor gates =
            functions[0](at::addmm(inputs.narrow(1, 0, 2 * h), state[0], gate_weight));
        const at::Tensor update = gates.narrow(1, 0, h);
        const at::Tensor reset = gates.narrow(1, h, h);
        const at::Tensor own = inputs.narrow(1, 2 * h, h);
        const at::Tensor candidate = functions[1](
            resets_late ? own + reset * (late_bias.defined()
                                             ? at::addmm(late_bias, state[0], candidate_weight)
                                             : at::mm(state[0], candidate_weight))
                        : at::addmm(own, reset * state[0], candidate_weight));
        return {candidate + update * (state[0] - candidate)};
    };
    return run_steps(r, projected(in_order(r, d, r.data), d.input_weight, bias), {d.hidden}, cell);
}

Tensors gru(const KernelCall& call) {
    const Recurrence r = recurrence_of(call, 3);
    const std::vector<Activation> functions = activations_of(call, {"sigmoid", "tanh"});
    std::vector<State> directions;
    for (std::size_t d = 0; d < r.directions.size(); ++d) {
        directions.push_back(gru_direction(call, r, r.directions[d], &functions[2 * d]));
    }
    return joined(r, directions);
}

// --- RNN ---------------------------------------------------------------------------------------

Tensors rnn(const KernelCall& call) {
    const Recurrence r = recurrence_of(call, 1);
    const std::vector<Activation> functions = activations_of(call, {"tanh"});
    std::vector<State> directions;
    for (std::size_t i = 0; i < r.directions.size(); ++i) {
        const Direction& d = r.directions[i];
        const at::Tensor recurrent = d.recurrent_weight.t();
        const Cell cell = [&](const at::Tensor& inputs, const State& state) -> State {
            return {functions[i](at::addmm(inputs, state[0], recurrent))};
        };
        const at::Tensor steps = projected(in_order(r, d, r.data), d.input_weight,
                                           sum_of(d.input_bias, d.recurrent_bias));
        directions.push_back(run_steps(r, steps, {d.hidden}, cell));
    }
    return joined(r, directions);
}

}  // namespace

std::span<const KernelRow> recurrent_kernels() {
    static constexpr std::array kRows = {
        KernelRow{.type = "GRU", .forward = gru},
        KernelRow{.type = "LSTM", .forward = lstm},
        KernelRow{.type = "RNN", .forward = rnn},
    };
    return kRows;
}

}  // namespace partita::runtime
