// SPDX-License-Identifier: Apache-2.0
//
// A Dropout inside of attention (graph/fusion/attention.h): of the softmax's result the elements are
// dropped that ONNX's Dropout of that name would have dropped there, forward and backward alike, so that
// nothing of the size of the scores is kept between them.
#pragma once

#include <utility>

#include <ATen/core/Tensor.h>

#include "runtime/kernels/kernel.h"

namespace partita::runtime {

class ScoreDropout {
public:
    /// Of Attention and BlockAttention. Where it drops, operands have 4 dims: the positions of heads tell
    /// elements apart.
    explicit ScoreDropout(const KernelCall& call);
    /// By what another one said.
    ScoreDropout(double ratio, at::Tensor rows) : ratio_(ratio), rows_(std::move(rows)) {}

    [[nodiscard]] bool drops() const { return ratio_ > 0; }
    [[nodiscard]] double ratio() const { return ratio_; }
    /// Bits of each row of scores that the part has, int64 [n h s].
    [[nodiscard]] const at::Tensor& rows() const { return rows_; }

    /// Weights [... t], or their gradient, with what is dropped 0 and the rest larger. `rows` [...] are
    /// theirs among rows(); `keys`, which broadcasts, are positions in the whole sequence.
    [[nodiscard]] at::Tensor applied(const at::Tensor& weights, const at::Tensor& rows,
                                     const at::Tensor& keys) const;

private:
    double ratio_ = 0;
    at::Tensor rows_;
};

/// softmax(q * scale k^T + bias), dropped in part, times v: [n h s v] of q [n h s e], k [n h t e],
/// v [n h t v] and a bias, undefined or of 4 dims that broadcast to the scores, minus infinity where a key
/// is hidden; queries that see none get zeros. Some heads of one entry at a time, and once more in
/// backward, so that no more of the scores is held.
at::Tensor attention_with_dropout(const ScoreDropout& dropout, const at::Tensor& query,
                                  const at::Tensor& key, const at::Tensor& value,
                                  const at::Tensor& bias, double scale);

}  // namespace partita::runtime
