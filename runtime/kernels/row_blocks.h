// SPDX-License-Identifier: Apache-2.0
//
// Work on large matrices some rows at a time: what is made in between and thrown away, as the float32
// of a vocabulary's logits in 16 bits, is then never larger than a block.
#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>

namespace partita::runtime {

/// Elements of a block: 256 MiB in float32. Of 50,257 columns that is enough rows for all of a GPU's
/// processors; with an eighth of it a sum of exponentials takes twice as long (H200).
inline constexpr std::int64_t kBlockElements = std::int64_t{1} << 26U;

/// `body(first, count)` for blocks of the rows of a matrix, each of at least one row.
template <class Body>
void for_row_blocks(const at::Tensor& matrix, const Body& body) {
    const std::int64_t rows = matrix.size(0);
    const std::int64_t columns = std::max<std::int64_t>(matrix.size(1), 1);
    const std::int64_t step = std::max<std::int64_t>(kBlockElements / columns, 1);
    for (std::int64_t first = 0; first < rows; first += step) {
        body(first, std::min(step, rows - first));
    }
}

/// ln(sum of exp) of each row [rows 1] of a matrix that has columns, in the type `wide`, which is as
/// wide as the matrix's or wider. Minus infinity where all are, infinity where one is.
at::Tensor log_sum_exp_of_rows(const at::Tensor& matrix, at::ScalarType wide);

}  // namespace partita::runtime
