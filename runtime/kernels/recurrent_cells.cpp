// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/recurrent_cells.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <variant>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "runtime/kernels/expected.h"

namespace partita::runtime {

namespace {

// --- activations -------------------------------------------------------------------------------

struct Parameters {
    double alpha = 0;
    double beta = 0;
};

using Function = at::Tensor (*)(const at::Tensor& x, const Parameters& p);

/// `count`: how many of alpha and beta it takes.
struct ActivationRow {
    std::string_view name;
    Function function;
    int count = 0;
    Parameters defaults = {};
};

constexpr std::array kActivations = {
    ActivationRow{
        "affine",
        [](const at::Tensor& x, const Parameters& p) -> at::Tensor { return x * p.alpha + p.beta; },
        2,
        {1, 0}},
    ActivationRow{"elu",
                  [](const at::Tensor& x, const Parameters& p) { return at::elu(x, p.alpha); },
                  1,
                  {1, 0}},
    ActivationRow{"hardsigmoid",
                  [](const at::Tensor& x, const Parameters& p) {
                      return at::clamp(x * p.alpha + p.beta, 0, 1);
                  },
                  2,
                  {0.2, 0.5}},
    ActivationRow{
        "leakyrelu",
        [](const at::Tensor& x, const Parameters& p) { return at::leaky_relu(x, p.alpha); },
        1,
        {0.01, 0}},
    ActivationRow{"relu", [](const at::Tensor& x, const Parameters&) { return at::relu(x); }},
    ActivationRow{"scaledtanh",
                  [](const at::Tensor& x, const Parameters& p) -> at::Tensor {
                      return at::tanh(x * p.beta) * p.alpha;
                  },
                  2,
                  {1, 1}},
    ActivationRow{"sigmoid", [](const at::Tensor& x, const Parameters&) { return at::sigmoid(x); }},
    ActivationRow{"softplus",
                  [](const at::Tensor& x, const Parameters&) { return at::softplus(x); }},
    ActivationRow{
        "softsign",
        [](const at::Tensor& x, const Parameters&) -> at::Tensor { return x / (at::abs(x) + 1); }},
    ActivationRow{"tanh", [](const at::Tensor& x, const Parameters&) { return at::tanh(x); }},
    ActivationRow{
        "thresholdedrelu",
        [](const at::Tensor& x, const Parameters& p) { return at::threshold(x, p.alpha, 0); },
        1,
        {1, 0}},
};

std::string lower(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
}

template <class T>
std::vector<T> list_of(const KernelCall& call, std::string_view attribute) {
    const graph::AttributeValue* value = call.op.attributes.find(attribute);
    const auto* list = value == nullptr ? nullptr : std::get_if<std::vector<T>>(value);
    return list == nullptr ? std::vector<T>() : *list;
}

/// Alphas and betas are consumed in order by the functions that take them.
double consumed(const std::vector<double>& values, std::size_t& next, double fallback) {
    return next < values.size() ? values[next++] : fallback;
}

}  // namespace

std::vector<Activation> activations_of(const KernelCall& call,
                                       const std::vector<std::string>& defaults) {
    std::vector<std::string> names = list_of<std::string>(call, "activations");
    if (names.empty()) {
        names = defaults;
        names.insert(names.end(), defaults.begin(), defaults.end());
    }
    const std::vector<double> alphas = list_of<double>(call, "activation_alpha");
    const std::vector<double> betas = list_of<double>(call, "activation_beta");
    const double clip = call.real("clip", 0.0);
    std::size_t next_alpha = 0;
    std::size_t next_beta = 0;
    std::vector<Activation> result;
    for (const std::string& name : names) {
        const auto* const row = std::ranges::find(kActivations, lower(name), &ActivationRow::name);
        if (row == kActivations.end()) throw std::runtime_error("no activation '" + name + "'");
        Parameters p = row->defaults;
        if (row->count > 0) p.alpha = consumed(alphas, next_alpha, p.alpha);
        if (row->count > 1) p.beta = consumed(betas, next_beta, p.beta);
        result.emplace_back([function = row->function, p, clip](const at::Tensor& x) {
            return function(clip > 0 ? at::clamp(x, -clip, clip) : x, p);
        });
    }
    const auto directions = static_cast<std::size_t>(call.operand(1).size(0));
    expect(result.size() >= directions * defaults.size(),
           "activations: expected one per gate and direction");
    return result;
}

bool has_default_activations(const KernelCall& call, const std::vector<std::string>& defaults) {
    const std::vector<std::string> names = list_of<std::string>(call, "activations");
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (lower(names[i]) != lower(defaults[i % defaults.size()])) return false;
    }
    return call.real("clip", 0.0) <= 0;
}

// --- operands ----------------------------------------------------------------------------------

namespace {

constexpr std::size_t kWeight = 1;
constexpr std::size_t kRecurrent = 2;
constexpr std::size_t kBias = 3;
constexpr std::size_t kHidden = 5;
constexpr std::size_t kCell = 6;

Direction direction_of(const KernelCall& call, const Recurrence& r, std::int64_t d,
                       bool is_reversed) {
    const at::Tensor& data = r.data;
    const auto state = [&](std::size_t operand, std::int64_t extent) {
        if (!call.has(operand)) return at::zeros({data.size(1), extent}, data.options());
        return call.operand(operand).select(r.is_batch_first ? 1 : 0, d);
    };
    Direction direction{.is_reversed = is_reversed,
                        .input_weight = call.operand(kWeight).select(0, d),
                        .recurrent_weight = call.operand(kRecurrent).select(0, d)};
    if (call.has(kBias)) {
        const at::Tensor bias = call.operand(kBias).select(0, d);
        direction.input_bias = bias.slice(0, 0, bias.size(0) / 2);
        direction.recurrent_bias = bias.slice(0, bias.size(0) / 2);
    }
    direction.hidden = state(kHidden, direction.recurrent_weight.size(1));
    direction.cell = state(kCell, r.units);
    if (call.has(kPeepholes)) direction.peepholes = call.operand(kPeepholes).select(0, d);
    return direction;
}

}  // namespace

namespace {

/// W [d (q h) i], R [d (q h) h], B [d (2 q h)]: gates are taken apart without looking.
void check_gates(const KernelCall& call, std::int64_t gates) {
    const at::Tensor& weight = call.operand(kWeight);
    expect(weight.dim() == 3 && weight.size(0) > 0 && weight.size(0) <= 2 && weight.size(1) > 0 &&
               weight.size(1) % gates == 0,
           "operand 1: expected weights of all gates for one or two directions");
    const at::Tensor& recurrent = call.operand(kWeight + 1);
    expect(recurrent.dim() == 3 && recurrent.size(0) == weight.size(0) &&
               recurrent.size(1) == weight.size(1),
           "operand 2: expected weights of as many gates and directions as operand 1 has");
    const at::Tensor& bias = call.operand(kWeight + 2);
    expect(!bias.defined() || (bias.dim() == 2 && bias.size(0) == weight.size(0) &&
                               bias.size(1) == 2 * weight.size(1)),
           "operand 3: expected two biases for each gate");
    const at::Tensor& peepholes = call.operand(kPeepholes);
    expect(!peepholes.defined() || (peepholes.dim() == 2 && peepholes.size(0) == weight.size(0) &&
                                    peepholes.size(1) == weight.size(1) / gates * 3),
           "operand 7: expected three peepholes for each unit");
}

}  // namespace

Recurrence recurrence_of(const KernelCall& call, std::int64_t gates) {
    Recurrence r;
    r.is_batch_first = call.integer("layout", 0) != 0;
    r.data = r.is_batch_first ? call.operand(0).transpose(0, 1) : call.operand(0);
    check_gates(call, gates);
    r.units = call.operand(kWeight).size(1) / gates;
    if (call.has(kLengths)) {
        r.lengths = call.operand(kLengths).to(r.data.device(), at::kLong).unsqueeze(1);
    }
    const std::string name = call.text("direction", "forward");
    for (std::int64_t d = 0; d < call.operand(kWeight).size(0); ++d) {
        r.directions.push_back(direction_of(call, r, d, d == 1 || name == "reverse"));
    }
    return r;
}

at::Tensor in_order(const Recurrence& recurrence, const Direction& direction,
                    const at::Tensor& steps) {
    if (!direction.is_reversed) return steps;
    if (!recurrence.lengths.defined()) return steps.flip(0);
    const at::Tensor& lengths = recurrence.lengths;  // [b 1]
    const at::Tensor at = at::arange(steps.size(0), lengths.options());
    const at::Tensor from = at::where(at < lengths, lengths - 1 - at, at).t().unsqueeze(-1);
    return steps.gather(0, from.expand(steps.sizes()));
}

// --- steps -------------------------------------------------------------------------------------

State run_steps(const Recurrence& recurrence, const at::Tensor& projected, State state,
                const Cell& cell) {
    Tensors hidden;
    for (std::int64_t step = 0; step < projected.size(0); ++step) {
        check_time();
        State next = cell(projected.select(0, step), state);
        if (!recurrence.lengths.defined()) {
            hidden.push_back(next.front());
            state = std::move(next);
            continue;
        }
        const at::Tensor is_inside = recurrence.lengths > step;
        hidden.push_back(at::where(is_inside, next.front(), at::zeros_like(next.front())));
        for (std::size_t i = 0; i < state.size(); ++i) {
            // A part of the units does not hold its own first state; lengths are at least 1.
            const bool is_whole = state[i].sizes() == next[i].sizes();
            state[i] = is_whole ? at::where(is_inside, next[i], state[i]) : next[i];
        }
    }
    State result{at::stack(hidden)};
    result.insert(result.end(), state.begin(), state.end());
    return result;
}

at::Tensor side_by_side(const Tensors& directions, std::int64_t dim) {
    return directions.size() == 1 ? directions.front().unsqueeze(dim) : at::stack(directions, dim);
}

Tensors joined(const Recurrence& recurrence, const std::vector<State>& directions) {
    Tensors results;
    for (std::size_t i = 0; i < directions.front().size(); ++i) {
        Tensors parts;
        for (std::size_t d = 0; d < directions.size(); ++d) {
            const at::Tensor& part = directions[d][i];
            parts.push_back(i == 0 ? in_order(recurrence, recurrence.directions[d], part) : part);
        }
        results.push_back(side_by_side(parts, i == 0 ? 1 : 0));
    }
    if (!recurrence.is_batch_first) return results;
    results[0] = results[0].permute({2, 0, 1, 3});
    for (std::size_t i = 1; i < results.size(); ++i) results[i] = results[i].transpose(0, 1);
    return results;
}

}  // namespace partita::runtime
