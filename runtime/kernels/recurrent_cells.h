// SPDX-License-Identifier: Apache-2.0
//
// What LSTM, GRU and RNN share: operands by direction, activation functions, and the run through
// the steps. q gates of h units, d directions, s steps, a batch of b:
//
//     X [s b i]  W [d (q h) i]  R [d (q h) k]  B [d (two q h)]  lengths [b]  H0 [d b k]  C0 [d b h]
//
// k = h, but for a part that holds only some units: it has one step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/kernel.h"

namespace partita::runtime {

using Activation = std::function<at::Tensor(const at::Tensor&)>;

/// The functions of every direction in turn, e.g. f, g, h, f, g, h; `defaults` for one direction.
/// Throws std::runtime_error when ONNX has no such function.
std::vector<Activation> activations_of(const KernelCall& call,
                                       const std::vector<std::string>& defaults);
/// Are these the defaults, and nothing clipped?
bool has_default_activations(const KernelCall& call, const std::vector<std::string>& defaults);

/// One direction's operands.
struct Direction {
    bool is_reversed = false;
    at::Tensor input_weight;      ///< W [(q h) i]
    at::Tensor recurrent_weight;  ///< R [(q h) k]
    at::Tensor input_bias;        ///< [(q h)], or undefined
    at::Tensor recurrent_bias;    ///< [(q h)], or undefined
    at::Tensor hidden;            ///< [b k]: given, or zeros
    at::Tensor cell;              ///< [b h]: given, or zeros
    at::Tensor peepholes;         ///< [(three h)], or undefined
};

struct Recurrence {
    at::Tensor data;     ///< X [s b i], whatever the layout
    at::Tensor lengths;  ///< [b 1], or undefined: all steps
    std::int64_t units = 0;
    bool is_batch_first = false;
    std::vector<Direction> directions;
};

/// Operands that the cells themselves look for.
inline constexpr std::size_t kLengths = 4;
inline constexpr std::size_t kPeepholes = 7;

Recurrence recurrence_of(const KernelCall& call, std::int64_t gates);

/// Steps in the order the direction takes them; of a sequence only as many as it has. Its own
/// inverse.
at::Tensor in_order(const Recurrence& recurrence, const Direction& direction,
                    const at::Tensor& steps);

/// The state after one step: h, or h and c.
using State = std::vector<at::Tensor>;
using Cell = std::function<State(const at::Tensor& projected, const State& state)>;

/// Runs the cell over the projected steps [s b (q h)] of one direction: the hidden states [s b h],
/// then the last state. Ended sequences keep their state and give zeros.
State run_steps(const Recurrence& recurrence, const at::Tensor& projected, State state,
                const Cell& cell);

/// Of each direction one, side by side in a new dim.
at::Tensor side_by_side(const Tensors& directions, std::int64_t dim);

/// Y [s d b h], then the states [d b h], from what run_steps() gave for each direction; in the
/// layout.
Tensors joined(const Recurrence& recurrence, const std::vector<State>& directions);

}  // namespace partita::runtime
