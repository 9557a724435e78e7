// SPDX-License-Identifier: Apache-2.0
//
// Expands a recurrent op (LSTM, GRU, RNN) into ops of one step each, so that steps can be placed
// apart (--unroll). They are ops of the same operator, so rules, costs and kernels need nothing
// new:
//
//     X ─▶ Split ─▶ x_0, x_1, ...                       x_t [1 batch width]
//     x_t, W, R, B, h_(t-1), c_(t-1) ─▶ LSTM ─▶ y_t, h_t, c_t
//     y_0, y_1, ... ─▶ Concat ─▶ Y                      the last h and c are Y_h and Y_c
//
// With layout = 1 X is [batch steps width]. Two directions: W, R, B, P and the initial states are
// split first, each direction has its own steps, and Concat joins their results. All steps of a
// direction share one weight.
//
// Not unrolled: unknown extents, sequence lengths per batch entry, more than kMaxSteps steps.
#pragma once

#include <cstdint>
#include <deque>

#include "importers/onnx/draft.h"

namespace partita::importers {

inline constexpr std::int64_t kMaxSteps = 10'000;

bool can_unroll(const DraftNode& node, const std::deque<Value>& values);

/// Appends the expansion of `node`, for which can_unroll() holds, to the draft.
void unroll(const DraftNode& node, std::deque<Value>& values, Draft& draft);

}  // namespace partita::importers
