// SPDX-License-Identifier: Apache-2.0
//
// What kernels of attention share. They work by head: [n s (h e)], as models of 3 dims have operands,
// is seen as [n h s e].
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>

#include "runtime/kernels/expected.h"

namespace partita::runtime {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Of Attention and BlockAttention, behind queries, keys and values.
inline constexpr std::size_t kMask = 3;

/// [n s (h e)] -> [n h s e]
inline at::Tensor by_head(const at::Tensor& packed, std::int64_t heads) {
    return packed.reshape({packed.size(0), packed.size(1), heads, -1}).transpose(1, 2);
}

/// [n h s e] -> [n s (h e)]
inline at::Tensor packed(const at::Tensor& heads) {
    return heads.transpose(1, 2).flatten(2);
}

/// Every key-value head serves so many query heads.
inline at::Tensor repeated(const at::Tensor& heads, std::int64_t query_heads) {
    expect(heads.size(1) > 0, "expected heads of keys and values");
    const std::int64_t times = query_heads / heads.size(1);
    return times == 1 ? heads : heads.repeat_interleave(times, 1);
}

/// Of scores to which the bias was added, unless it is undefined. Queries that may attend no key get
/// zeros; the bias decides that, as their scores may be no numbers.
inline at::Tensor softmax_of_scores(const at::Tensor& scores, const at::Tensor& bias,
                                    at::ScalarType precision) {
    if (!bias.defined()) return at::softmax(scores, -1, precision);
    // Filled before too: a softmax of nothing but minus infinity has no gradient.
    const at::Tensor sees_nothing = bias.eq(-kInfinity).all(-1, /*keepdim=*/true);
    return at::softmax(scores.masked_fill(sees_nothing, 0), -1, precision)
        .masked_fill(sees_nothing, 0);
}

}  // namespace partita::runtime
