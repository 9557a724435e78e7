// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernels/row_blocks.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

namespace partita::runtime {

// The largest x of a row, less the largest of x - lse: one kernel sums, and no digits are lost, as
// that is between 0 and ln(columns).
at::Tensor log_sum_exp_of_rows(const at::Tensor& matrix, at::ScalarType wide) {
    at::Tensor result = at::empty({matrix.size(0), 1}, matrix.options().dtype(wide));
    for_row_blocks(matrix, [&](std::int64_t first, std::int64_t count) {
        const at::Tensor rows = matrix.narrow(0, first, count).to(wide);
        const at::Tensor largest = at::amax(rows, 1, /*keepdim=*/true);
        const at::Tensor share = at::amax(at::_log_softmax(rows, 1, /*half_to_float=*/false), 1,
                                          /*keepdim=*/true);
        // Infinite ones say themselves what the sum is.
        result.narrow(0, first, count).copy_(at::where(largest.isinf(), largest, largest - share));
    });
    return result;
}

}  // namespace partita::runtime
