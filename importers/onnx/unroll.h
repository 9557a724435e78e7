// SPDX-License-Identifier: Apache-2.0
//
// Expands a recurrent op (LSTM, GRU, RNN) into one op per step and direction, so that steps can be
// placed apart (--unroll). X is [steps batch width], or [batch steps width] with layout = 1:
//
//     X ─▶ Split ─▶ x_0, x_1, ...                             x_t [1 batch width]
//     x_t, W, R, B, h_(t-1), (c_(t-1), P) ─▶ LSTMStep ─▶ y_t, (c_t)        y_t is also h_t
//     y_0, y_1, ... ─▶ Concat ─▶ Y           last h, c of both directions ─▶ Concat ─▶ Y_h, Y_c
//
// Step ops have domain "partita", the attributes of the recurrent op, its whole W, R, B and P (so
// that a direction's weights stay one parameter), and an attribute `direction_index` that picks the
// slice. Not unrolled: unknown extents, sequence lengths per batch entry, more than kMaxSteps steps.
#pragma once

#include <cstdint>
#include <deque>

#include "importers/onnx/draft.h"

namespace partita::importers {

inline constexpr std::int64_t kMaxSteps = 100'000;

bool can_unroll(const DraftNode& node, const std::deque<Value>& values);

/// Appends the expansion of `node`, for which can_unroll() holds, to the draft.
void unroll(DraftNode node, std::deque<Value>& values, Draft& draft);

}  // namespace partita::importers
