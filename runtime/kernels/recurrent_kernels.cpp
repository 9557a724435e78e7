// SPDX-License-Identifier: Apache-2.0
//
// LSTM, GRU, RNN. The inputs of all steps are projected by one matrix product; each step adds another, of
// the hidden state.
//
// An LSTM with its default functions has a backward of its own, which keeps what the row says: operands
// and results, no gates. The gates of all steps come again from two large products, as Y holds every
// hidden state, and the gradients of both weights are one product each, where autograd would add up one
// per step. Other LSTMs run their forward again under autograd.
#include <array>
#include <stdexcept>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

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

bool is_default_lstm(const KernelCall& call) {
    constexpr std::size_t kLengths = 4;
    constexpr std::size_t kPeepholes = 7;
    return has_default_activations(call, lstm_defaults()) && !call.has(kLengths) &&
           !call.has(kPeepholes) && call.integer("input_forget", 0) == 0;
}

/// sigmoid of three gates and tanh of the fourth, in place: [... (4 h)].
void activate(const at::Tensor& gates, std::int64_t units) {
    gates.narrow(-1, 0, 3 * units).sigmoid_();
    gates.narrow(-1, 3 * units, units).tanh_();
}

/// The same without history: gates and states are written where they belong.
State default_lstm_direction(const Recurrence& r, const Direction& d) {
    const at::Tensor steps =
        projected(in_order(r, d, r.data), d.input_weight, sum_of(d.input_bias, d.recurrent_bias));
    const at::Tensor recurrent = d.recurrent_weight.t();
    const std::int64_t h = r.units;
    at::Tensor hidden = d.hidden;
    at::Tensor cell = d.cell;
    const at::Tensor all = at::empty({steps.size(0), steps.size(1), h}, steps.options());
    for (std::int64_t step = 0; step < steps.size(0); ++step) {
        at::Tensor gates = steps.select(0, step);
        gates.addmm_(hidden, recurrent);
        activate(gates, h);
        cell = (gates.narrow(1, 2 * h, h) * cell)
                   .addcmul_(gates.narrow(1, 0, h), gates.narrow(1, 3 * h, h));
        hidden = all.select(0, step);
        at::tanh_out(hidden, cell);
        hidden.mul_(gates.narrow(1, h, h));
    }
    return {all, hidden, cell};
}

Tensors lstm(const KernelCall& call) {
    const Recurrence r = recurrence_of(call, 4);
    const bool is_fast = !at::GradMode::is_enabled() && is_default_lstm(call);
    const std::vector<Activation> functions = activations_of(call, lstm_defaults());
    std::vector<State> directions;
    for (std::size_t d = 0; d < r.directions.size(); ++d) {
        const Direction& direction = r.directions[d];
        directions.push_back(is_fast ? default_lstm_direction(r, direction)
                                     : lstm_direction(call, r, direction, &functions[3 * d]));
    }
    return joined(r, directions);
}

// --- backward of the default LSTM --------------------------------------------------------------

/// What one direction gets, its steps in the direction's order, and gives.
struct LstmGradients {
    at::Tensor steps;   ///< of Y [s b h], or undefined
    at::Tensor hidden;  ///< of the last hidden state [b h], or undefined; then of the first [b k]
    at::Tensor cell;
    at::Tensor data, input_weight, recurrent_weight, bias;
};

/// Gates and cell states of all steps, again.
struct LstmStates {
    at::Tensor before;  ///< hidden states before each step [s b k]
    at::Tensor gates;   ///< [s b (4 h)], after their functions
    at::Tensor cells;   ///< [s + 1 b h]: the given one, then after each step
};

LstmStates lstm_states(const Recurrence& r, const Direction& d, const at::Tensor& data,
                       const at::Tensor& hidden) {
    const std::int64_t steps = data.size(0);
    const std::int64_t h = r.units;
    LstmStates s;
    s.before = d.hidden.unsqueeze(0);
    if (steps > 1) s.before = at::cat({s.before, hidden.narrow(0, 0, steps - 1)});
    s.gates = projected(data, d.input_weight, sum_of(d.input_bias, d.recurrent_bias));
    s.gates.view({-1, 4 * h})
        .addmm_(s.before.reshape({-1, s.before.size(2)}), d.recurrent_weight.t());
    activate(s.gates, h);
    s.cells = at::empty({steps + 1, data.size(1), h}, data.options());
    s.cells.select(0, 0).copy_(d.cell);
    const at::Tensor added = s.gates.narrow(2, 0, h) * s.gates.narrow(2, 3 * h, h);
    for (std::int64_t step = 0; step < steps; ++step) {
        at::Tensor next = s.cells.select(0, step + 1);
        at::addcmul_out(next, added.select(0, step), s.gates.select(0, step).narrow(1, 2 * h, h),
                        s.cells.select(0, step));
    }
    return s;
}

/// Per gate before its function: its gradient for a gradient of 1 of the cell state, or, of the output
/// gate, of the hidden state.
at::Tensor gate_slopes(const LstmStates& s, const at::Tensor& squashed, std::int64_t h) {
    const auto gate = [&](std::int64_t i) { return s.gates.narrow(2, i * h, h); };
    const at::Tensor in = gate(0);
    const at::Tensor out = gate(1);
    const at::Tensor keep = gate(2);
    const at::Tensor candidate = gate(3);
    const at::Tensor slopes = at::empty_like(s.gates);
    const auto slope = [&](std::int64_t i) { return slopes.narrow(2, i * h, h); };
    const std::int64_t steps = s.gates.size(0);
    slope(0).copy_(at::sigmoid_backward(candidate, in));
    slope(1).copy_(at::sigmoid_backward(squashed, out));
    slope(2).copy_(at::sigmoid_backward(s.cells.narrow(0, 0, steps), keep));
    slope(3).copy_(at::tanh_backward(in, candidate));
    return slopes;
}

/// From the last step to the first: the gradients of all gates [s b (4 h)], and of the given states.
at::Tensor gate_gradients(const LstmStates& s, const Direction& d, std::int64_t h,
                          LstmGradients& g) {
    const std::int64_t steps = s.gates.size(0);
    const std::int64_t batch = s.gates.size(1);
    const at::Tensor squashed = s.cells.narrow(0, 1, steps).tanh();
    const at::Tensor to_cell = at::tanh_backward(s.gates.narrow(2, h, h), squashed);
    at::Tensor gates = gate_slopes(s, squashed, h);  // becomes the gradients, step by step
    at::Tensor cell = g.cell.defined() ? g.cell.clone() : at::zeros({batch, h}, gates.options());
    at::Tensor hidden = g.hidden;
    for (std::int64_t step = steps; step-- > 0;) {
        if (g.steps.defined()) hidden = sum_of(hidden, g.steps.select(0, step));
        if (!hidden.defined()) hidden = at::zeros({batch, h}, gates.options());
        cell.addcmul_(hidden, to_cell.select(0, step));
        const at::Tensor here = gates.select(0, step);
        here.narrow(1, 0, h).mul_(cell);
        here.narrow(1, h, h).mul_(hidden);
        here.narrow(1, 2 * h, 2 * h).view({batch, 2, h}).mul_(cell.unsqueeze(1));
        cell.mul_(s.gates.select(0, step).narrow(1, 2 * h, h));
        hidden = at::mm(here, d.recurrent_weight);
    }
    g.hidden = hidden;
    g.cell = cell;
    return gates;
}

void lstm_direction_backward(const Recurrence& r, const Direction& d, const at::Tensor& hidden,
                             LstmGradients& g) {
    const at::Tensor data = in_order(r, d, r.data);
    const LstmStates s = lstm_states(r, d, data, hidden);
    const at::Tensor gates = gate_gradients(s, d, r.units, g).view({-1, 4 * r.units});
    g.data = at::mm(gates, d.input_weight).view(data.sizes());
    g.input_weight = at::mm(gates.t(), data.reshape({-1, data.size(2)}));
    g.recurrent_weight = at::mm(gates.t(), s.before.reshape({-1, s.before.size(2)}));
    g.bias = gates.sum(0);
}

/// Of result `i`, in one direction; undefined when nobody gave one.
at::Tensor given_of(const Tensors& given, const Recurrence& r, std::size_t i, std::int64_t d) {
    if (i >= given.size() || !given[i].defined()) return {};
    if (i == 0) return (r.is_batch_first ? given[0].permute({1, 2, 0, 3}) : given[0]).select(1, d);
    return given[i].select(r.is_batch_first ? 1 : 0, d);
}

Tensors default_lstm_backward(const BackwardCall& call) {
    const Recurrence r = recurrence_of(call, 4);
    const bool has_hidden = !call.results.empty() && call.results[0].defined();
    const bool needs_hidden = r.data.size(0) > 1;
    Tensors results(call.results.begin(), call.results.end());
    if (needs_hidden && !has_hidden) results = lstm(call);
    const Tensors given(call.gradients.begin(), call.gradients.end());
    std::array<Tensors, 6> found;  // per operand with a gradient: its directions
    for (std::size_t d = 0; d < r.directions.size(); ++d) {
        const Direction& direction = r.directions[d];
        const auto number = static_cast<std::int64_t>(d);
        LstmGradients g{.steps = given_of(given, r, 0, number),
                        .hidden = given_of(given, r, 1, number),
                        .cell = given_of(given, r, 2, number)};
        if (g.steps.defined()) g.steps = in_order(r, direction, g.steps);
        const at::Tensor hidden = given_of(results, r, 0, number);
        lstm_direction_backward(r, direction,
                                needs_hidden ? in_order(r, direction, hidden) : hidden, g);
        found[0].push_back(in_order(r, direction, g.data));
        found[1].push_back(g.input_weight);
        found[2].push_back(g.recurrent_weight);
        found[3].push_back(at::cat({g.bias, g.bias}));
        found[4].push_back(g.hidden);
        found[5].push_back(g.cell);
    }
    const at::Tensor data = found[0].size() == 1 ? found[0][0] : found[0][0] + found[0][1];
    const std::int64_t direction_dim = r.is_batch_first ? 1 : 0;
    return {r.is_batch_first ? data.transpose(0, 1) : data,
            side_by_side(found[1], 0),
            side_by_side(found[2], 0),
            side_by_side(found[3], 0),
            {},
            side_by_side(found[4], direction_dim),
            side_by_side(found[5], direction_dim)};
}

/// The forward again, under autograd.
Tensors backward_by_forward(const BackwardCall& call, ForwardKernel forward) {
    const at::AutoGradMode grad(true);
    Tensors operands(call.operands.begin(), call.operands.end());
    Tensors leaves;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        if (!call.wants(i)) continue;
        operands[i] = operands[i].detach().requires_grad_(true);
        leaves.push_back(operands[i]);
    }
    KernelCall again = call;
    again.operands = operands;
    Tensors outputs;
    Tensors given;
    const Tensors results = forward(again);
    for (std::size_t i = 0; i < call.gradients.size() && i < results.size(); ++i) {
        if (!call.gradients[i].defined() || !results[i].requires_grad()) continue;
        outputs.push_back(results[i]);
        given.push_back(call.gradients[i]);
    }
    if (outputs.empty()) return {};
    const Tensors found =
        torch::autograd::grad(outputs, leaves, given, /*retain_graph=*/std::nullopt,
                              /*create_graph=*/false, /*allow_unused=*/true);
    Tensors gradients(operands.size());
    for (std::size_t i = 0, next = 0; i < gradients.size(); ++i) {
        if (call.wants(i)) gradients[i] = found[next++];
    }
    return gradients;
}

Tensors lstm_backward(const BackwardCall& call) {
    return is_default_lstm(call) ? default_lstm_backward(call) : backward_by_forward(call, lstm);
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
        KernelRow{.type = "LSTM", .forward = lstm, .backward = lstm_backward},
        KernelRow{.type = "RNN", .forward = rnn},
    };
    return kRows;
}

}  // namespace partita::runtime
